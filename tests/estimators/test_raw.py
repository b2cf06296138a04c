"""Raw tables with nothing set."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.metrics import log_loss, r2_score

import rkhs
from rkhs import KernelClassifier, KernelRegressor
from rkhs.features import Concatenated, Nystrom, RandomBinning
from rkhs.kernels import Laplacian
from rkhs.solvers import Exact

rng = np.random.default_rng(0)
N_ROWS = 1600
FRAME = pd.DataFrame(
    {
        "x": rng.normal(size=N_ROWS),
        "tail": np.exp(3 * rng.normal(size=N_ROWS)),
        "city": rng.choice(["Rome", "Oslo", "Lima"], N_ROWS),
        "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, N_ROWS), "D"),
        "noise": rng.normal(size=N_ROWS),
    }
)
SIGNAL = np.sin(2 * FRAME["x"]) + 2 * (FRAME["city"] == "Rome") + 0.2 * np.log(FRAME["tail"])
Y = 1000.0 + SIGNAL.to_numpy() + 0.1 * rng.normal(size=N_ROWS)
FRAME.loc[::9, "x"] = np.nan
FRAME.loc[::10, "city"] = None
FRAME.loc[::11, "day"] = pd.NaT
Y[::9] = 1003.0
TRAIN, TEST = slice(0, 1200), slice(1200, None)


@pytest.fixture(scope="module")
def model():
    return KernelRegressor(random_state=0).fit(FRAME[TRAIN], Y[TRAIN])


def test_text_gaps_dates_and_tails_are_taken_as_they_are(model):
    assert model.score(FRAME[TEST], Y[TEST]) > 0.9
    assert "leave-one-out" in model.summary_


def test_categories_are_the_grids_business():
    X = pd.DataFrame(rng.uniform(-1, 1, size=(1500, 2)), columns=["a", "b"])
    X["city"] = rng.choice(["Rome", "Oslo"], len(X))
    y = np.sin(3 * X["a"]) + X["b"] ** 2 + 0.2 * (X["city"] == "Rome")
    model = KernelRegressor(random_state=0).fit(X[:1200], y[:1200])
    smooth, grids = model.features_.maps_
    assert isinstance(smooth, Nystrom)
    assert isinstance(grids, RandomBinning)
    assert np.isinf(smooth.kernel_.length_scale[2])  # cities have no distance
    assert model.score(X[1200:], y[1200:]) > 0.99


def test_many_classes_have_probabilities_that_rows_not_fitted_to_agree_with(tmp_path):
    X = rng.normal(size=(4000, 3))
    noise = rng.gumbel(size=(4000, 4))
    y = np.array(["a", "b", "c", "d"])[(2 * X @ rng.normal(size=(3, 4)) + noise).argmax(axis=1)]
    model = KernelClassifier(random_state=0).fit(X[:2000], y[:2000])
    assert model.loss_.sharpness > 1
    P = model.predict_proba(X[2000:])
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    right = P.argmax(axis=1) == np.searchsorted(model.classes_, y[2000:])
    assert abs(P.max(axis=1).mean() - right.mean()) < 0.04  # as sure as it is right
    half = clone(model.loss_).set_params(sharpness=model.loss_.sharpness / 2)
    double = clone(model.loss_).set_params(sharpness=model.loss_.sharpness * 2)
    f = model.decision_function(X[2000:])
    likeliest = log_loss(y[2000:], P)
    assert likeliest < min(log_loss(y[2000:], loss.probability(f)) for loss in (half, double))
    rkhs.save(model, tmp_path / "model")
    np.testing.assert_array_equal(rkhs.load(tmp_path / "model").predict_proba(X[2000:]), P)


def test_importances_are_of_the_tables_columns(model):
    importance = dict(zip(FRAME.columns, model.feature_importances_, strict=True))
    assert sum(importance.values()) == pytest.approx(1.0)
    assert max(importance["day"], importance["noise"]) < 0.3 * min(
        importance["x"], importance["city"]
    )


def test_a_saved_model_prepares_its_rows_alike(model, tmp_path):
    rkhs.save(model, tmp_path / "model")
    loaded = rkhs.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(FRAME), model.predict(FRAME))
    assert loaded.summary_ == model.summary_


def test_seeds_repeat_to_the_bit_for_any_number_of_threads(model):
    again = KernelRegressor(random_state=0, n_jobs=1).fit(FRAME[TRAIN], Y[TRAIN])
    np.testing.assert_array_equal(again.predict(FRAME), model.predict(FRAME))


def test_weights_are_repetitions_and_rows_come_in_any_order():
    X = rng.normal(size=(1000, 2))
    y = np.sign(X[:, 0] + np.sin(3 * X[:, 1]))
    weight = rng.integers(1, 3, len(X))
    rows = rng.permutation(np.repeat(np.arange(len(X)), weight))
    once = KernelClassifier(random_state=0).fit(X, y, weight)
    many = KernelClassifier(random_state=0).fit(X[rows], y[rows])
    row = np.zeros((1, 2))
    np.testing.assert_allclose(once.kernel_(row, X), many.kernel_(row, X), rtol=1e-3)
    assert once.alpha_ == pytest.approx(many.alpha_)
    np.testing.assert_allclose(once.predict_proba(X), many.predict_proba(X), atol=0.02)


def test_small_tables_with_gaps_or_text_need_no_search():
    few = FRAME[:40]
    model = KernelRegressor(random_state=0).fit(few, Y[:40])
    assert model.score(few, Y[:40]) > 0.5
    assert model.summary_ == "too few rows for a search"
    gaps = np.where(rng.uniform(size=(30, 2)) < 0.2, np.nan, 1.0 * np.arange(60).reshape(30, 2))
    labels = np.arange(30) > 14
    classifier = KernelClassifier(random_state=0).fit(gaps, labels)
    assert classifier.score(gaps, labels) > 0.8
    with pytest.raises(ValueError, match="infinity"):
        classifier.predict(np.full((1, 2), np.inf))


def test_a_fixed_length_scale_or_any_other_knob_turns_it_off():
    X = rng.normal(size=(1100, 2))
    for knob in ({"length_scale": 1.0}, {"alpha": 1e-3}, {"kernel": "gaussian"}):
        model = KernelRegressor(random_state=0, **knob).fit(X, X[:, 0])
        assert not hasattr(model, "summary_")
        assert model.preparation_ is None
        with pytest.raises(ValueError, match="NaN"):
            clone(model).fit(np.full((5, 2), np.nan), np.zeros(5))


def test_centres_for_what_is_smooth_and_grids_alone_for_steps():
    X = rng.uniform(-1, 1, size=(1500, 2))
    smooth = np.sin(3 * X[:, 0]) + X[:, 1] ** 2
    steps = np.floor(8 * X[:, 0]) % 2 + np.floor(8 * X[:, 1]) % 2
    model = KernelRegressor(random_state=0)
    assert isinstance(model.fit(X[:1200], smooth[:1200]).features_, Concatenated)
    assert model.score(X[1200:], smooth[1200:]) > 0.999
    model.fit(X[:1200], steps[:1200])
    assert model.score(X[1200:], steps[1200:]) > 0.8


def test_a_time_budget_ends_the_search_too():
    X = rng.normal(size=(3000, 20))
    model = KernelRegressor(time_budget=1e-3, random_state=0).fit(X, X[:, 0])
    assert len(model.summary_.splitlines()) == 2  # scales as they were, and one trial
    assert "time budget" in model.stop_reason_


def test_sparse_tables_are_searched_as_they_are():
    X = rng.normal(size=(1100, 4)) * (rng.uniform(size=(1100, 4)) < 0.3)
    y = X[:, 0] + np.abs(X[:, 1])
    model = KernelRegressor(random_state=0).fit(sparse.csr_array(X), y)
    assert model.preparation_ is None
    assert model.score(sparse.csr_array(X), y) > 0.95
    np.testing.assert_allclose(model.predict(sparse.csr_array(X)), model.predict(X))


def test_several_targets_share_what_is_found_whatever_their_units():
    X = rng.normal(size=(1100, 2))
    Y = np.stack([np.sin(2 * X[:, 0]), 100.0 + 1e6 * X[:, 1]], axis=1)
    model = KernelRegressor(random_state=0).fit(X, Y)
    assert r2_score(Y, model.predict(X), multioutput="raw_values").min() > 0.95


@pytest.mark.parametrize(
    "column",
    [np.nan, 3.0, np.resize([0.0, 1e150, -1e150], 1000), np.resize([0.0, 1e-300], 1000)],
    ids=["gaps", "constant", "huge", "tiny"],
)
def test_columns_that_could_break_it(column):
    X = np.column_stack([rng.normal(size=1000), np.broadcast_to(column, 1000)])
    y = np.sin(2 * X[:, 0])
    assert KernelRegressor(random_state=0).fit(X, y).score(X, y) > 0.9


def test_few_different_rows_need_no_search():
    X = np.resize(np.arange(4.0), 1200)[:, None]
    model = KernelRegressor(random_state=0).fit(X, X[:, 0] ** 2)
    assert model.score(X, X[:, 0] ** 2) > 0.99
    assert model.summary_ == "too few different rows for a search"
    flat = KernelRegressor(random_state=0).fit(np.ones((1200, 2)), np.arange(1200.0))
    np.testing.assert_allclose(flat.predict(np.ones((1, 2))), 599.5, rtol=1e-3)


def test_too_little_memory_is_said_before_the_search():
    X = rng.normal(size=(2000, 3))
    with pytest.raises(MemoryError, match="needs about"):
        KernelRegressor(memory_limit="1MB").fit(X, X[:, 0])


@pytest.mark.parametrize(
    "kernel", ["gaussian", "exponential", "laplacian", "matern", "rational_quadratic"]
)
def test_named_kernels_learn_their_scales(kernel):
    X, y = make_friedman1(1200, 12, noise=0.5, random_state=0)
    model = KernelRegressor(kernel=kernel, alpha=1e-3, random_state=0)
    plain = model.fit(X[:600], y[:600]).score(X[600:], y[600:])
    model.set_params(length_scale="learned").fit(X[:600], y[:600])
    assert 1 - model.score(X[600:], y[600:]) < 0.7 * (1 - plain)
    assert model.alpha_ == 1e-3
    assert isinstance(model.solver_, Exact)
    assert model.feature_importances_[5:].max() < model.feature_importances_[:5].min()
    assert model.set_params(alpha="auto").fit(X[:600], y[:600]).alpha_ != 1 / 600


def test_kernels_that_cannot_learn_say_which_can():
    X = rng.normal(size=(60, 2))
    with pytest.raises(ValueError, match=r"Cauchy.* has no gradient"):
        KernelRegressor(kernel="cauchy", length_scale="learned").fit(X, X[:, 0])
    with pytest.raises(ValueError, match="kernel"):
        KernelRegressor(kernel="nothing", length_scale="learned").fit(X, X[:, 0])
    with pytest.raises(ValueError, match="both given"):
        KernelRegressor(kernel=Laplacian(), length_scale="learned").fit(X, X[:, 0])
