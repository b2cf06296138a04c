"""Estimators that learn a linear map of the columns."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import rkhs
from rkhs import KernelClassifier, KernelRegressor
from rkhs.features import Nystrom
from rkhs.kernels import Gaussian, Mapped

rng = np.random.default_rng(0)
X = rng.normal(size=(1200, 5))
DIRECTION = np.array([1.0, -1.0, 1.0, 1.0, 0.0]) / 2
WAVE = np.sin(2.5 * X @ DIRECTION)
Y = WAVE + 0.1 * rng.normal(size=1200)
TRAIN, TEST = slice(0, 600), slice(600, None)


@pytest.mark.parametrize("kernel", ["gaussian", "exponential", "matern", "rational_quadratic"])
def test_an_oblique_function_is_learnt_far_better_than_along_columns(kernel):
    model = KernelRegressor(kernel=kernel, length_scale="learned", random_state=0)
    diagonal = 1 - model.fit(X[TRAIN], Y[TRAIN]).score(X[TEST], Y[TEST])
    model.set_params(metric="full").fit(X[TRAIN], Y[TRAIN])
    assert 1 - model.score(X[TEST], Y[TEST]) < 0.5 * diagonal
    first = model.kernel_.matrix[0]
    assert abs(first @ DIRECTION) > 0.99 * np.linalg.norm(first)
    assert "directions" in model.summary_
    assert model.length_scale_[4] > 5 * model.length_scale_[:4].max()
    assert model.feature_importances_[4] < 0.05


@pytest.mark.parametrize("features", ["random_fourier", "nystrom", None])
def test_features_predict_alike_and_files_keep_the_map(features, tmp_path):
    model = KernelRegressor(
        metric="full", features=features, solver="conjugate_gradient", random_state=0
    ).fit(X[TRAIN], Y[TRAIN])
    assert isinstance(model.kernel_, Mapped)
    assert model.score(X[TEST], Y[TEST]) > 0.9
    rkhs.save(model, tmp_path / "model.safetensors")
    for again in (
        rkhs.load(tmp_path / "model.safetensors"),
        pickle.loads(pickle.dumps(model)),
        clone(model).fit(X[TRAIN], Y[TRAIN]),
    ):
        np.testing.assert_array_equal(again.predict(X[TEST]), model.predict(X[TEST]))
        np.testing.assert_array_equal(again.length_scale_, model.length_scale_)


def test_classes_of_an_oblique_direction():
    classes = np.array(["low", "mid", "high"])[np.digitize(WAVE, [-0.5, 0.5])]
    model = KernelClassifier(
        kernel="gaussian", loss="squared_error", length_scale="learned", random_state=0
    )
    diagonal = 1 - model.fit(X[TRAIN], classes[TRAIN]).score(X[TEST], classes[TEST])
    model.set_params(metric="full").fit(X[TRAIN], classes[TRAIN])
    assert 1 - model.score(X[TEST], classes[TEST]) < 0.6 * diagonal


def test_auto_scales_are_learnt_scales():
    settings = {"kernel": "gaussian", "metric": "full", "random_state": 0}
    few = slice(0, 200)
    auto = KernelRegressor(**settings).fit(X[few], Y[few])
    learned = KernelRegressor(length_scale="learned", **settings).fit(X[few], Y[few])
    np.testing.assert_array_equal(auto.predict(X), learned.predict(X))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"metric": "round"}, 'metric must be "diagonal" or "full"'),
        ({"length_scale": 2.0}, r"length_scale=2.0 was given.*\"learned\""),
        ({"length_scale": "median"}, "was given"),
        ({"kernel": Gaussian()}, "built by hand"),
        ({"kernel": "laplacian"}, r"product over the columns.*\"gaussian\""),
        ({"features": "random_binning"}, r"product over the columns.*\"diagonal\""),
        ({"features": Nystrom(5, kernel=Gaussian())}, "a kernel of their own"),
        ({"memory_limit": "1MB"}, "needs about"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, problem):
    with pytest.raises((ValueError, MemoryError), match=problem):
        KernelRegressor(**{"metric": "full", **settings}).fit(X[:300], Y[:300])


def test_a_stream_has_no_table_to_learn_from():
    model = KernelRegressor(kernel="gaussian", solver="dsg", metric="full")
    with pytest.raises(ValueError, match="Call fit first"):
        model.partial_fit(X[:300], Y[:300])
