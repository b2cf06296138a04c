"""Ridges chosen by held-out rows, against ridge regression done by hand."""

import numpy as np
import pytest

from rkhs.data import RowSource
from rkhs.features import Nystrom, RandomBinning
from rkhs.kernels import Laplacian
from rkhs.losses import SquaredError
from rkhs.search._sample import distinct_rows
from rkhs.search._tuning import (
    RIDGES,
    Task,
    best_dense_ridge,
    best_ridge,
    best_squared_ridge,
    scaled,
    split,
)
from rkhs.solvers import ConjugateGradient

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 2))
Y = np.sin(3 * X[:, :1]) + 0.3 * rng.normal(size=(400, 1))
WEIGHT = rng.integers(1, 4, 400).astype(float)
SOURCE = RowSource(X)
TASK = split(SOURCE, distinct_rows(SOURCE, Y, WEIGHT, seed=0), 400)
KERNEL = Laplacian(1.5)


def by_hand(features, worth):
    """The lowest held-out loss of ridge regression on dense features, and its ridge.

    A smaller ridge must have a loss lower than `worth` times that of a larger one.
    """
    features = features.fit_rows(TASK.source, TASK.weight, np.float32, KERNEL)
    Z, judge = (features.transform(rows[:].astype(np.float64)) for rows in TASK[::3])
    if hasattr(Z, "toarray"):
        Z, judge = Z.toarray(), judge.toarray()
    loss, best = np.inf, RIDGES[0]
    for ridge in RIDGES:
        A = Z.T @ (TASK.weight[:, None] * Z) + ridge * np.eye(Z.shape[1])
        w = np.linalg.solve(A, Z.T @ (TASK.weight[:, None] * TASK.target))
        squares = 0.5 * (judge @ w - TASK.held_target)[:, 0] ** 2
        value = np.average(squares, weights=TASK.held_weight)
        if value < worth * loss:
            loss, best = value, ridge
    return loss, best


def test_no_row_is_on_both_sides_and_none_is_lost():
    rows = np.vstack([TASK.source[:], TASK.held_out[:]])
    np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(X, axis=0))
    assert TASK.weight.sum() + TASK.held_weight.sum() == WEIGHT.sum()
    assert len(TASK.held_out) == 100


def test_one_factorisation_gives_the_ridge_of_fits_for_each():
    loss, ridge = by_hand(Nystrom(60, random_state=0), worth=0.998)
    found = best_dense_ridge(TASK, KERNEL, Nystrom(60, random_state=0), RIDGES)
    assert found[:2] == (pytest.approx(loss, rel=1e-3), ridge)
    value = SquaredError().value(found.predicted, TASK.held_target, TASK.held_weight)
    assert value == pytest.approx(found.loss)
    # The function on the rows fitted to is the ridge regression's own.
    features = Nystrom(60, random_state=0).fit_rows(TASK.source, TASK.weight, np.float64, KERNEL)
    Z, weight = features.transform(TASK.source[:].astype(np.float64)), TASK.weight[:, None]
    w = np.linalg.solve(Z.T @ (weight * Z) + ridge * np.eye(60), Z.T @ (weight * TASK.target))
    np.testing.assert_allclose(found.fitted, Z @ w, atol=1e-3)


def test_a_path_ends_at_the_ridge_of_fits_for_each():
    loss, ridge = by_hand(RandomBinning(32, random_state=0), worth=1.0)
    solver, squared = ConjugateGradient(tol=1e-5), SquaredError()
    found = best_ridge(TASK, KERNEL, RandomBinning(32, random_state=0), solver, squared, RIDGES)
    assert found[:2] == (pytest.approx(loss, rel=1e-3), ridge)
    value = squared.value(found.predicted, TASK.held_target, TASK.held_weight)
    assert value == pytest.approx(found.loss)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_one_krylov_space_gives_the_ridge_of_fits_for_each(n_outputs):
    loss, ridge = by_hand(RandomBinning(32, random_state=0), worth=0.995)
    several = TASK._replace(
        target=np.tile(TASK.target, n_outputs), held_target=np.tile(TASK.held_target, n_outputs)
    )
    found = best_squared_ridge(several, KERNEL, RandomBinning(32, random_state=0), RIDGES)
    assert found[:2] == (pytest.approx(n_outputs * loss, rel=1e-3), ridge)
    for column in found.predicted.T:
        np.testing.assert_allclose(column, found.predicted[:, 0], atol=1e-5)


def test_a_krylov_space_of_few_dimensions_is_spanned():
    nothing = TASK._replace(target=np.zeros_like(TASK.target))
    found = best_squared_ridge(nothing, KERNEL, RandomBinning(8, random_state=0), RIDGES)
    np.testing.assert_array_equal(found.predicted, 0.0)
    flat = Laplacian(np.array([np.inf, np.inf]))  # one cell holds all rows
    found = best_squared_ridge(TASK, flat, RandomBinning(8, random_state=0), RIDGES)
    mean = np.average(TASK.target[:, 0], weights=TASK.weight)
    np.testing.assert_allclose(found.predicted, mean, rtol=0.02, atol=0.01)


def test_a_krylov_space_that_is_too_small_for_a_ridge_still_predicts():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(12_000, 2))
    y = (np.sin(30 * X[:, 0]) * np.sin(30 * X[:, 1]) + 0.05 * rng.normal(size=len(X)))[:, None]
    rows, weight = RowSource(X.astype(np.float32)), np.ones(len(X))
    task = Task(rows, y, weight, rows, y, weight)
    features, kernel = RandomBinning(64, random_state=0), Laplacian(0.25)
    large, small = (best_squared_ridge(task, kernel, features, [r]).loss for r in (10.0, 0.03))
    # On the rows fitted to themselves, less of a penalty can't have a larger error.
    assert small <= large < 0.5 * y.var()


def test_scaled_kernels_keep_the_ratios():
    kernel = scaled(Laplacian(np.array([1.0, np.inf, 4.0])), 0.5)
    np.testing.assert_array_equal(kernel.length_scale, [0.5, np.inf, 2.0])
