"""scikit-learn's own checks, and the tools that people use around estimators."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from helpers import table
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from rkhs import KernelClassifier, KernelRegressor
from rkhs.features import Nystrom, RandomBinning, RandomFourier
from rkhs.kernels import Gaussian, Laplacian
from rkhs.solvers import ConjugateGradient, EigenPro, NewtonCG


@parametrize_with_checks([KernelClassifier(), KernelRegressor()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [
        KernelClassifier(loss="squared_error"),
        KernelRegressor(early_stopping=True, random_state=0),
        KernelRegressor(metric="full", random_state=0),
        KernelClassifier(kernel="matern", metric="full", random_state=0),
        KernelRegressor(kernel="laplacian", features=RandomBinning(16), dtype="float64"),
        KernelRegressor(
            solver=EigenPro(tol=1e-14), max_epochs=500, dtype="float64", random_state=0
        ),
        KernelClassifier(
            kernel="laplacian", loss="squared_error", features=RandomBinning(16), dtype="float64"
        ),
    ]
)
def test_scikit_learn_checks_off_the_defaults(estimator, check):
    check(estimator)


def test_grid_search_reaches_into_kernel_and_solver():
    X, y, _ = table()
    search = GridSearchCV(
        KernelRegressor(kernel=Gaussian(1.0), features=None, solver=ConjugateGradient()),
        {"kernel__length_scale": [0.01, 1.5], "solver__tol": [1e-2, 1e-4], "alpha": [1e-4]},
        cv=3,
    ).fit(X, y)
    assert search.best_params_["kernel__length_scale"] == 1.5
    assert search.best_estimator_.kernel_.length_scale == 1.5
    assert search.best_score_ > 0.7


def test_pipeline_and_cross_validation():
    X, _, codes = table(600)
    scores = cross_val_score(make_pipeline(StandardScaler(), KernelClassifier()), X, codes, cv=3)
    assert scores.mean() > 0.6
    linear = make_pipeline(Nystrom(50, random_state=0), KernelClassifier())
    assert cross_val_score(linear, X, codes, cv=3).mean() > 0.5


def test_set_params_has_effect_after_construction():
    X, y, _ = table()
    model = KernelRegressor(kernel=Gaussian(1.0), alpha=1e-3)
    before = model.fit(X, y).predict(X)
    model.set_params(kernel__length_scale=5.0)
    assert not np.allclose(model.fit(X, y).predict(X), before)


def test_clone_and_pickle_keep_everything():
    X, _, codes = table()
    model = KernelClassifier(
        kernel=0.5 * Gaussian(1.0) + Laplacian(2.0),
        features=RandomFourier(64, random_state=1),
        solver=NewtonCG(tol=1e-3),
        random_state=3,
    ).fit(X, codes)
    again = clone(model).fit(X, codes)
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_keep_their_names(frame):
    X, y, _ = table()
    names = ["first", "second", "third"]
    data = frame(dict(zip(names, X.T, strict=True)))
    model = KernelRegressor().fit(data, y)
    assert list(model.feature_names_in_) == names
    np.testing.assert_allclose(model.predict(data), KernelRegressor().fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(data[["second", "first", "third"]])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output_of_a_feature_map(library):
    X, _, _ = table()
    out = Nystrom(5, random_state=0).set_output(transform=library).fit_transform(X)
    assert list(out.columns) == [f"nystrom{i}" for i in range(5)]


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, bool, np.float16, np.float32])
def test_any_numeric_dtype_is_the_same_table(dtype):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(60, 4)).astype(dtype)
    y = rng.normal(size=60)
    expected = KernelRegressor(solver="exact").fit(X.astype(np.float64), y)
    got = KernelRegressor(solver="exact").fit(X, y)
    np.testing.assert_allclose(got.predict(X), expected.predict(X.astype(np.float64)), rtol=1e-10)


@pytest.mark.parametrize("features", [None, "nystrom", "random_fourier"])
def test_sparse_rows_give_what_dense_rows_give(features):
    X, y, _ = table()
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    model = KernelRegressor(features=features, solver="conjugate_gradient", random_state=0)
    dense = clone(model).fit(X, y).predict(X)
    for kind in (sparse.csr_matrix, sparse.csc_array):
        again = clone(model).fit(kind(X), y).predict(kind(X))
        np.testing.assert_allclose(again, dense, rtol=1e-5, atol=1e-6)


def test_memory_maps_and_read_only_rows(tmp_path):
    X, y, _ = table()
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    X.setflags(write=False)
    y.setflags(write=False)
    expected = KernelRegressor().fit(X, y).predict(X)
    np.testing.assert_array_equal(KernelRegressor().fit(mapped, y).predict(mapped), expected)
