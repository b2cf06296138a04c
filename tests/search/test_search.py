"""What a search finds for a table."""

import numpy as np
import pytest

from rkhs import KernelRegressor
from rkhs.data import RowSource
from rkhs.features import Nystrom, RandomBinning
from rkhs.kernels import Gaussian, Laplacian, Matern
from rkhs.losses import SquaredError
from rkhs.search import search
from rkhs.search._sample import distinct_rows
from rkhs.search._search import (
    _TRIAL_GRIDS,
    _Best,
    _few_grids,
    _foresee,
    _newton_tolerance,
    _radial_ratio,
    _tolerance,
    _try_binning,
)
from rkhs.search._tuning import PathFit, Task, best_squared_ridge, split

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(1500, 2))
WEIGHT = np.ones(len(X))


def searched(X, y, weight):
    y = y[:, None] - np.average(y, weights=weight)
    memory = 2**30
    return search(RowSource(X), y, weight, SquaredError(), np.zeros(1), seed=0, memory=memory)


def smooth_part(choice) -> Nystrom:
    """The centres, with their kernel."""
    if isinstance(choice.features, Nystrom):
        return choice.features.set_params(kernel=choice.kernel)
    return choice.features.maps[0]


def test_a_smooth_function_gets_a_smooth_kernel():
    y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=len(X))
    assert isinstance(smooth_part(searched(X, y, WEIGHT)).kernel, Matern | Gaussian)


def test_a_function_of_steps_gets_a_rough_kernel():
    y = np.sign(np.sin(5 * X[:, 0])) * np.sign(X[:, 1]) + 0.1 * rng.normal(size=len(X))
    assert isinstance(smooth_part(searched(X, y, WEIGHT)).kernel, Laplacian)


def test_weights_and_repetitions_get_the_same_centres_and_scales():
    y = np.cos(3 * X[:, 0]) + 0.1 * rng.normal(size=len(X))
    weight = rng.integers(1, 4, len(X))
    rows = rng.permutation(np.repeat(np.arange(len(X)), weight))
    once, many = searched(X, y, 1.0 * weight), searched(X[rows], y[rows], np.ones(len(rows)))
    np.testing.assert_array_equal(smooth_part(once).centers, smooth_part(many).centers)
    assert len(np.unique(smooth_part(once).centers, axis=0)) == len(smooth_part(once).centers)
    scales = [smooth_part(choice).kernel.length_scale for choice in (once, many)]
    np.testing.assert_allclose(*scales, rtol=1e-5)
    assert once.ridge == pytest.approx(many.ridge)


def test_scales_that_more_rows_bear_are_foreseen():
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(64_000, 2))
    y = (np.sin(20 * X[:, 0]) * np.sin(20 * X[:, 1]) + 0.02 * rng.normal(size=len(X)))[:, None]
    source = RowSource(X.astype(np.float32))
    distinct = distinct_rows(source, y, np.ones(len(X)), seed=0)
    few, many = (split(source, distinct, n_rows) for n_rows in (5000, 64_000))
    found = {n_rows: _Best(Laplacian(1.0), []) for n_rows in (5000, 64_000)}
    for n_rows, best in found.items():
        _try_binning(best, few, seed=0, n_jobs=None)
        shorter = best.shorter
        _foresee(best, few, n_rows, seed=0, n_jobs=None)
    assert found[64_000].factor == 0.5 * found[5000].factor
    assert found[64_000].ridge == shorter.ridge
    assert "foreseen for 64000 rows" in found[64_000].report[-1]
    trial = RandomBinning(128, random_state=0)
    errors = [
        best_squared_ridge(many, best.best_kernel, trial, [best.ridge]).loss
        for best in found.values()
    ]
    assert errors[1] < errors[0]


def test_nothing_is_foreseen_where_there_is_nothing_to_learn():
    rows = RowSource(rng.normal(size=(30_000, 1)).astype(np.float32))
    zero = np.zeros((30_000, 1))
    found = search(rows, zero, np.ones(30_000), SquaredError(), np.zeros(1), 0, 2**30)
    assert not any("foreseen" in line for line in found.report)


def test_no_column_of_numbers_may_be_left():
    codes = rng.integers(0, 5, 1500).astype(float)
    table = np.column_stack([codes, rng.normal(size=(1500, 70))])
    source = RowSource(table, categories=[list("abcde"), *[None] * 70])
    y = (codes - 2.0)[:, None] + 0.1 * rng.normal(size=(1500, 1))
    found = search(source, y, np.ones(1500), SquaredError(), np.zeros(1), 0, 2**30)
    assert "70 are unrelated" in found.report[0]
    assert found.columns.tolist() == [0]
    assert np.isfinite(found.kernel.length_scale).tolist() == [True]


def test_scales_of_radial_kernels_keep_the_mean_distance():
    rows = np.repeat(rng.normal(size=(100, 1)), 4, axis=1) * [1.0, 2.0, 3.0, 5.0]
    task = Task(RowSource(rows), *[None] * 5)
    # Four columns that differ by as much: the root of four instead of four.
    scale = np.array([1.0, 2.0, 3.0, 5.0])
    assert _radial_ratio(task, scale) == pytest.approx(0.5)
    scale[1:] = np.inf
    assert _radial_ratio(task, scale) == pytest.approx(1.0)


def test_a_target_that_is_constant_is_no_error():
    model = KernelRegressor(loss="huber", random_state=0).fit(X, np.full(len(X), 3.0))
    np.testing.assert_allclose(model.predict(X[:5]), 3.0)


@pytest.mark.parametrize(("fitted", "new"), [(0.27, 0.28), (0.012, 0.05), (1e-4, 0.04), (0.0, 0.0)])
def test_newton_steps_end_at_a_share_of_the_loss_of_new_rows(fitted, new):
    fit, at_zero = PathFit(new, 1.0, np.zeros(1), fitted), np.log(2.0)
    tol = _newton_tolerance(fit, at_zero)
    # What a step must promise, by the rule of `NewtonCG`.
    promised = tol * (fitted + tol * at_zero)
    assert promised >= 0.999 * 0.02 * new
    assert tol == 0.02 or promised <= 1.001 * 0.02 * new


def test_the_most_precise_output_sets_the_tolerance():
    noise = rng.normal(size=(400, 1))
    known = np.hstack([np.zeros((400, 1)), 0.99 * noise])
    here = Task(None, None, None, None, np.hstack([noise, noise]), np.ones(400))
    assert _tolerance(known, here, coupled=False) == pytest.approx(1e-4)
    assert _tolerance(known[:, :1], here._replace(held_target=noise), False) == pytest.approx(1e-2)
    nothing = here._replace(held_target=np.zeros((400, 2)))
    assert _tolerance(np.zeros((400, 2)), nothing, coupled=False) == pytest.approx(1e-2)


def test_a_given_penalty_is_the_same_for_fewer_rows(monkeypatch):
    alphas = []

    def few_grids(task, kernel, seed, n_jobs, ridges):
        alphas.append(ridges[0] / task.weight.sum())
        return PathFit(1.0, ridges[0], np.zeros_like(task.held_target))

    monkeypatch.setattr("rkhs.search._search._few_grids", few_grids)
    rows, target, weight = np.zeros((400, 2)), np.zeros((400, 1)), np.full(400, 2.0)
    task = Task(RowSource(rows), target, weight, RowSource(rows), target, weight)
    shorter = PathFit(1.0, 0.8, target)
    found = _Best(Laplacian(np.ones(2)), [], error=1.0, shorter=shorter)
    _foresee(found, task, 4000, 0, None, (1e-3 * weight.sum(),))
    assert alphas == pytest.approx([1e-3, 1e-3])


def test_a_given_penalty_is_tried_to_its_end():
    rows = np.random.default_rng(1).uniform(-1, 1, size=(1200, 3))
    target = np.sin(25 * rows[:, :1]) * rows[:, 1:2]
    fit, held = slice(0, 900), slice(900, None)
    task = Task(
        *(RowSource(rows[fit]), target[fit], np.ones(900)),
        *(RowSource(rows[held]), target[held], np.ones(300)),
    )
    ridge, kernel = 1e-3, Laplacian(1.0)
    grids = RandomBinning(_TRIAL_GRIDS, kernel=kernel, random_state=0).fit(rows[fit])
    Z, Z_held = (grids.transform(part).toarray() for part in (rows[fit], rows[held]))
    coef = np.linalg.solve(Z.T @ Z + ridge * np.eye(Z.shape[1]), Z.T @ target[fit])
    exact = SquaredError().value(Z_held @ coef, target[held], np.full(300, 1 / 300))
    found = _few_grids(task, kernel, 0, None, (ridge,))
    # A path for many penalties, in few steps, ends 0.11 below.
    assert found.loss == pytest.approx(exact, rel=0.09)
