"""Numbers in, numbers out; and what all estimators share."""

import numpy as np
import pytest
from helpers import table
from sklearn.exceptions import ConvergenceWarning

from rkhs import KernelClassifier, KernelRegressor
from rkhs.estimators._auto import parse_memory
from rkhs.features import Nystrom, RandomFourier
from rkhs.solvers import SGD, ConjugateGradient, Exact, NewtonCG


def test_several_targets_are_fitted_as_each_alone():
    X, y, _ = table()
    Y = np.stack([y, 3 * y - 1, y**2], axis=1)
    together = KernelRegressor().fit(X, Y).predict(X)
    apart = [KernelRegressor().fit(X, Y[:, j]).predict(X) for j in range(3)]
    np.testing.assert_allclose(together, np.stack(apart, axis=1), rtol=1e-9, atol=1e-9)
    assert KernelRegressor().fit(X, Y[:, :1]).predict(X).shape == (len(X), 1)


@pytest.mark.parametrize("features", [None, Nystrom(1000), RandomFourier(100)], ids=repr)
def test_weights_are_repetitions(features):
    X, y, _ = table()
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    model = KernelRegressor(features=features, solver="exact", alpha=1e-2, random_state=0)
    weighted = model.fit(X, y, weight).predict(X)
    repeated = model.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight)).predict(X)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("loss", "n_rows", "features", "solver"),
    [
        ("squared_error", 100, type(None), Exact),
        ("squared_error", 2001, Nystrom, ConjugateGradient),
        ("huber", 2001, Nystrom, NewtonCG),
        ("absolute_error", 2001, Nystrom, SGD),
    ],
)
def test_auto_chooses_by_rows_and_loss(loss, n_rows, features, solver):
    X, y, _ = table(n_rows)
    model = KernelRegressor(kernel="gaussian", loss=loss, random_state=0).fit(X, y)
    assert isinstance(model.features_, features)
    assert isinstance(model.solver_, solver)
    assert model.alpha_ == pytest.approx(1 / n_rows)
    assert model.score(X, y) > 0.7


def test_a_solver_that_needs_features_gets_them():
    X, y, _ = table()
    model = KernelRegressor(solver="sgd", random_state=0).fit(X, y)
    assert isinstance(model.features_, Nystrom)


def test_raw_columns_in_different_units_work_by_default():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3)) * [1e-4, 1.0, 1e6] + [0.0, 5.0, 1e7]
    y = np.sin(X[:, 0] * 1e4) + (X[:, 2] - 1e7) / 1e6
    for n_rows, model in ((500, KernelRegressor()), (500, KernelRegressor(features="nystrom"))):
        assert model.fit(X[:n_rows], y[:n_rows]).score(X, y) > 0.95


@pytest.mark.parametrize("features", [None, "nystrom", "random_fourier"])
@pytest.mark.parametrize("n_jobs", [2, 3])
def test_number_of_threads_changes_no_bit(features, n_jobs):
    X, y, _ = table(1500)
    model = KernelRegressor(features=features, solver="conjugate_gradient", random_state=0)
    one = model.set_params(n_jobs=1).fit(X, y).predict(X)
    many = model.set_params(n_jobs=n_jobs).fit(X, y).predict(X)
    np.testing.assert_array_equal(one, many)


def test_random_state_repeats_to_the_bit():
    X, y, _ = table(600)
    for features in ("nystrom", "random_fourier"):
        model = KernelRegressor(features=features, random_state=7, solver="sgd", max_epochs=3)
        first = model.fit(X, y).predict(X)
        np.testing.assert_array_equal(model.fit(X, y).predict(X), first)
    other = KernelRegressor(features="random_fourier", random_state=8).fit(X, y).predict(X)
    same = KernelRegressor(features="random_fourier", random_state=7).fit(X, y).predict(X)
    assert not np.array_equal(other, same)


def test_float64_on_request():
    X, y, _ = table(300)
    model = KernelRegressor(features="random_fourier", random_state=0, tol=1e-10, alpha=1e-2)
    rough = model.fit(X, y).predict(X)
    fine = model.set_params(dtype="float64").fit(X, y).predict(X)
    exact = model.set_params(solver="exact", tol=None).fit(X, y).predict(X)
    assert fine.dtype == np.float64
    assert rough.dtype == np.float32
    assert np.abs(fine - exact).max() < 1e-7 < np.abs(rough - exact).max()


def test_warm_start_continues():
    X, y, _ = table(400)
    model = KernelRegressor(
        features=RandomFourier(200), solver=ConjugateGradient(preconditioner=None), alpha=1e-4,
        warm_start=True, random_state=0, max_epochs=5,
    )  # fmt: skip
    last = np.inf
    for _ in range(4):
        with pytest.warns(ConvergenceWarning, match="before it reached"):
            model.fit(X, y)
        objectives = [row["objective"] for row in model.history_]
        assert last > objectives[0] > objectives[-1]
        last = objectives[-1]
    with pytest.warns(ConvergenceWarning):
        model.set_params(warm_start=False).fit(X, y)
    assert model.history_[-1]["objective"] > last


def test_warm_start_ignores_what_does_not_fit():
    X, y, _ = table(400)
    model = KernelRegressor(features=RandomFourier(50), warm_start=True, random_state=0)
    model.fit(X, y)
    model.set_params(features=RandomFourier(60)).fit(X, np.stack([y, y], axis=1))
    assert model.expansion_.coef.shape == (60, 2)


@pytest.mark.parametrize("features", [None, "nystrom", "random_fourier"])
def test_warm_start_starts_cold_when_kernel_rows_or_columns_change(features):
    X, y, _ = table(300)
    make = {"features": features, "solver": "conjugate_gradient", "random_state": 0}
    changes = [
        ({"length_scale": 0.3}, X),
        ({"kernel": "laplacian"}, X),
        ({}, 100 * X + 1000),
        ({}, X[:, :2]),
    ]
    for change, rows in changes:
        warm = KernelRegressor(warm_start=True, **make).fit(X, y).set_params(**change)
        cold = KernelRegressor(**{**make, **change}).fit(rows, y)
        np.testing.assert_array_equal(warm.fit(rows, y).predict(rows), cold.predict(rows))


@pytest.mark.parametrize("loss", ["absolute_error", "epsilon_insensitive", "pinball"])
def test_kinked_losses_are_exact_from_large_to_small_alpha_and_in_any_unit(loss):
    X, y, _ = table()
    last = np.inf
    for alpha in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5):
        model = KernelRegressor(loss=loss, alpha=alpha).fit(X, y)
        assert 0 <= model.history_[-1]["objective"] < last
        last = model.history_[-1]["objective"]
    if loss != "epsilon_insensitive":  # its tube has a unit of its own
        big = KernelRegressor(loss=loss, alpha=1e-3).fit(X, y).predict(X)
        small = KernelRegressor(loss=loss, alpha=1e3).fit(X, 1e-6 * y).predict(X)
        np.testing.assert_allclose(1e6 * small, big, rtol=1e-5, atol=1e-6)


def test_exact_kinked_fit_without_features_beyond_the_small_tables():
    X, y, _ = table(2100)
    model = KernelRegressor(features=None, loss="absolute_error").fit(X, y)
    assert isinstance(model.solver_, Exact)


def test_what_exact_cannot_reach_is_said():
    X, _, codes = table()
    with pytest.warns(ConvergenceWarning, match="before it reached"):
        KernelClassifier(alpha=1e-14).fit(X, codes > 0)
    with pytest.warns(ConvergenceWarning, match="before it reached"):
        KernelRegressor(loss="absolute_error", alpha=1e-10).fit(X, X[:, 0] ** 3)


def test_constant_columns_and_constant_targets():
    X, y, _ = table()
    X = np.hstack([X, np.full((len(X), 1), 3.0)])
    model = KernelRegressor().fit(X, y)
    moved = X + np.array([0, 0, 0, 100.0])
    np.testing.assert_allclose(model.predict(moved), model.predict(X))
    flat = KernelRegressor(alpha=1e-8).fit(np.ones((10, 2)), np.full(10, 4.0))
    np.testing.assert_allclose(flat.predict(np.ones((1, 2))), 4.0, rtol=1e-6)
    zero = KernelRegressor(features="nystrom", solver="conjugate_gradient").fit(X, np.zeros(len(X)))
    np.testing.assert_array_equal(zero.predict(X), 0.0)


@pytest.mark.parametrize("features", [None, "nystrom", "random_fourier"])
def test_one_two_and_three_rows(features):
    for n_rows in (1, 2, 3):
        X = np.arange(2.0 * n_rows).reshape(n_rows, 2)
        y = np.arange(1.0, n_rows + 1)
        model = KernelRegressor(features=features, alpha=1e-6, random_state=0).fit(X, y)
        np.testing.assert_allclose(model.predict(X), y, rtol=1e-3)


def test_classes_and_numbers_have_their_own_losses():
    X, y, codes = table()
    with pytest.raises(ValueError, match=r"not a loss for classification.*log_loss"):
        KernelClassifier(loss="huber").fit(X, codes)
    with pytest.raises(ValueError, match=r"not a loss for regression.*huber"):
        KernelRegressor(loss="hinge").fit(X, y)


@pytest.mark.parametrize(
    ("given", "bytes_"),
    [(1000, 1000), ("2GB", 2 * 10**9), ("1.5 MiB", 3 * 2**19), ("64k", 64_000), (1e9, 10**9)],
)
def test_memory_limits_are_read(given, bytes_):
    assert parse_memory(given) == bytes_
