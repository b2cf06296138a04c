"""Where features outnumber the rows, unknowns of rows lead to the same function."""

from dataclasses import replace

import numpy as np
import pytest

from rkhs import KernelRegressor
from rkhs.data import RowSource
from rkhs.driver import path, run
from rkhs.features import Concatenated, Nystrom, RandomBinning, RandomFourier
from rkhs.kernels import Laplacian
from rkhs.losses import LogLoss, Softmax, SquaredError
from rkhs.operators import KernelOperator
from rkhs.problem import Problem
from rkhs.solvers import ConjugateGradient, NewtonCG
from rkhs.solvers._preconditioner import for_rows

rng = np.random.default_rng(0)
N_ROWS = 300
X = rng.normal(size=(N_ROWS, 3))
SIGNAL = np.sin(2 * X[:, 0]) + X[:, 1]
GRIDS = RandomBinning(48, kernel=Laplacian(1.0), random_state=0)
BOTH = Concatenated(
    [Nystrom(40, kernel=Laplacian(8.0)), RandomBinning(48, kernel=0.1 * Laplacian(1.0))],
    random_state=0,
)
TARGETS = {
    SquaredError: np.column_stack([SIGNAL, X[:, 2] ** 2]),
    LogLoss: np.sign(SIGNAL)[:, None],
    Softmax: (np.digitize(SIGNAL, [-1, 1])[:, None] == np.arange(3)).astype(float),
}
WEIGHT = rng.integers(1, 4, N_ROWS) / 1.0


def problem(features, loss, alpha=1e-3, dtype=np.float32):
    source, weight = RowSource(X), WEIGHT / WEIGHT.sum()
    features.fit_rows(source, weight, dtype)
    operator = features.operator(source, dtype, keep_bytes=2**30)
    target = TARGETS[type(loss)]
    return Problem(features.kernel_, loss, features, alpha, source, target, weight, operator)


@pytest.mark.parametrize("features", [GRIDS, BOTH], ids=["grids", "centres and grids"])
@pytest.mark.parametrize(
    ("loss", "solver"),
    [
        (SquaredError(), ConjugateGradient(tol=1e-7)),
        (LogLoss(), NewtonCG(tol=1e-9)),
        (Softmax(), NewtonCG(tol=1e-9)),
    ],
    ids=["squared", "logistic", "softmax"],
)
def test_both_unknowns_give_the_same_coefficients(features, loss, solver):
    by_features = problem(features, loss)
    by_rows = replace(by_features, operator=by_features.operator.precise, by_rows=True)
    one, other = (run(p, solver) for p in (by_features, by_rows))
    assert other.state.coef.shape == by_rows.coef_shape == by_features.target.shape
    coef, exact = by_rows.feature_coef(other.state.coef), one.state.coef
    assert np.linalg.norm(coef - exact) < 2e-3 * np.linalg.norm(exact)
    # The same value is minimised, and the history knows it without another pass.
    assert other.state.objective == pytest.approx(by_features.objective(coef), rel=1e-4)
    assert by_rows.objective(other.state.coef) == pytest.approx(other.state.objective, rel=1e-6)
    np.testing.assert_allclose(
        other.expansion.evaluate(RowSource(X)), by_features.operator.matmat(coef), atol=1e-4
    )


def test_rows_are_chosen_where_they_are_fewer_and_a_preconditioner_is_at_hand():
    assert problem(GRIDS, SquaredError()).with_fewer_unknowns().by_rows
    assert problem(GRIDS, Softmax()).with_fewer_unknowns().by_rows
    assert problem(BOTH, SquaredError()).with_fewer_unknowns().by_rows
    assert not problem(BOTH, LogLoss()).with_fewer_unknowns().by_rows
    wide = RandomBinning(4, kernel=Laplacian(100.0), random_state=0)  # few cells
    assert not problem(wide, SquaredError()).with_fewer_unknowns().by_rows
    single = Concatenated([RandomFourier(20), GRIDS], kernel=Laplacian(1.0), random_state=0)
    assert not problem(single, SquaredError()).with_fewer_unknowns().by_rows  # float32 products
    stiff = problem(BOTH, SquaredError(), alpha=1e-8)
    assert not stiff.with_fewer_unknowns().by_rows
    began = replace(problem(GRIDS, SquaredError()), start=np.zeros((1, 1)))
    assert not began.with_fewer_unknowns().by_rows


@pytest.mark.parametrize("features", [GRIDS, BOTH], ids=["grids", "centres and grids"])
@pytest.mark.parametrize("alpha", [1e-2, 1e-4])
@pytest.mark.parametrize("equal", [True, False], ids=["equal rows", "weights"])
def test_the_spread_bounds_the_condition_number_by_rows(features, alpha, equal):
    weight = np.full(N_ROWS, 1.0 / N_ROWS) if equal else WEIGHT / WEIGHT.sum()
    given = replace(problem(features, SquaredError(), alpha), weight=weight)
    Z = given.operator.rows(0, N_ROWS)
    Z = Z.toarray() if hasattr(Z, "toarray") else Z
    root = np.sqrt(weight)
    system = root[:, None] * (Z @ Z.T) * root + alpha * np.eye(N_ROWS)
    solve = for_rows(given).factor(weight, None, alpha)
    values = np.linalg.eigvals(np.hstack([solve(c[:, None]).copy() for c in system.T])).real
    exact = np.sqrt(values.max() / values.min())
    assert exact < 1.001 * given._spread  # all rows are in the sample
    assert given._spread < 2.0 * exact


def test_a_second_dense_part_and_a_huge_penalty_count():
    maps = [Nystrom(2, kernel=0.1 * Laplacian(1.0)), *BOTH.maps]
    three = Concatenated(maps, random_state=0)
    assert problem(three, SquaredError(), 1e-4)._spread > 10 * problem(BOTH, SquaredError())._spread
    model = KernelRegressor(kernel="laplacian", features=RandomBinning(48), alpha=1e300)
    assert np.abs(model.fit(X, SIGNAL).predict(X)).max() < 1e-6


def test_a_path_goes_on_from_row_to_row_unknowns():
    given = problem(GRIDS, SquaredError()).with_fewer_unknowns()
    alphas = [1e-1, 1e-2, 1e-3]
    for alpha, fit in zip(alphas, path(given, ConjugateGradient(tol=1e-8), alphas), strict=True):
        alone = run(replace(given, alpha=alpha), ConjugateGradient(tol=1e-8))
        np.testing.assert_allclose(fit.state.coef, alone.state.coef, rtol=1e-4, atol=1e-4)


def test_a_tiny_penalty_beside_a_large_smooth_part_is_solved():
    # The smooth part is a million times the penalty: products in float32 would drown it.
    maps = [Nystrom(200, kernel=Laplacian(50.0)), RandomBinning(64, kernel=1e-3 * Laplacian(1.0))]
    model = KernelRegressor(
        features=Concatenated(maps),
        solver=ConjugateGradient(tol=1e-6),
        alpha=1e-3 / N_ROWS,
        random_state=0,
    ).fit(X, SIGNAL)
    assert model.stop_reason_ == "The solver reached its tolerance."
    assert model.n_iter_ < 40
    assert model.score(X, SIGNAL) > 0.9999


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_with_a_small_ridge_every_step_lowers_the_objective():
    rows = np.random.default_rng(0).normal(size=(2000, 5))
    signs = np.sign(rows[:, 0] * rows[:, 1])
    model = KernelRegressor(
        kernel=Laplacian(2.0),
        features=RandomBinning(64),
        solver="conjugate_gradient",
        alpha=1e-3 / len(rows),
        max_epochs=15,
        random_state=0,
    ).fit(rows, signs)
    assert model.features_.n_outputs > len(rows)
    assert np.diff([row["objective"] for row in model.history_]).max() <= 0


def test_conjugate_gradients_know_their_objective_in_the_whole_space():
    kernel, source = Laplacian(2.0), RowSource(X)
    operator = KernelOperator(kernel, source, source, np.float64)
    target, weight = TARGETS[SquaredError], WEIGHT / WEIGHT.sum()
    whole = Problem(kernel, SquaredError(), None, 1e-3, source, target, weight, operator)
    state = run(whole, ConjugateGradient(tol=1e-6)).state
    assert state.objective == pytest.approx(whole.objective(state.coef), rel=1e-6)
