"""Coordinate descent against other people's solvers, and the conditions of optimality."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import LOSSES, exact_objective, make_problem, problem_on, table
from sklearn.linear_model import Lasso, LogisticRegression

from rkhs import KernelClassifier, KernelRegressor
from rkhs.data import RowSource
from rkhs.driver import path, run
from rkhs.features import Nystrom, RandomBinning, RandomFourier
from rkhs.kernels import Laplacian
from rkhs.losses import Hinge, Huber, LogLoss, Softmax, SquaredError
from rkhs.solvers import CoordinateDescent, Exact, NewtonCG

SMOOTH = [loss for loss in LOSSES if loss.curvature is not None]
MAPS = {
    "random_binning": lambda: RandomBinning(12, Laplacian(2.0), random_state=0),
    "random_fourier": lambda: RandomFourier(30, Laplacian(2.0), random_state=0),
}
LARGE_CELLS = {"large_cells": lambda: RandomBinning(60, Laplacian(8.0), random_state=0)}
SCHEMES = ["grid", "random"]
TIGHT = 1e-4


def problem_of(loss=None, space="random_binning", n_rows=400, alpha=2e-3, n_jobs=None, **more):
    """An L1 problem in float64, weighted, on a fitted map."""
    loss = SquaredError() if loss is None else loss
    X, y, codes = table(n_rows)
    target = y[:, None]
    if "regression" not in loss.tasks:
        target = loss.encode(codes, 3)
    weight = np.random.default_rng(1).integers(0, 4, size=n_rows).astype(float)
    source = RowSource(X)
    features = (MAPS | LARGE_CELLS)[space]().fit_rows(source, weight, np.float64)
    operator = features.operator(source, np.float64, n_jobs=n_jobs)
    more = {"penalty": "l1", "n_jobs": n_jobs, **more}
    kernel = features.kernel_
    return problem_on(loss, kernel, features, alpha, source, target, weight, operator, **more)


def gradient(problem, coef):
    """Of the loss, in double precision, from the rows themselves."""
    Z = problem.features.transform(problem.source[slice(None)])
    Z = Z.toarray() if problem.features.is_sparse else Z
    return Z.T @ problem.derivative(Z @ coef)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("space", MAPS)
@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_no_entry_of_the_gradient_is_steeper_than_the_penalty(loss, space, scheme):
    problem = problem_of(loss, space, n_rows=200, alpha=5e-3)
    coef = run(problem, CoordinateDescent(1e-3, scheme), max_epochs=5000).state.coef
    slope = gradient(problem, coef)
    zero = coef == 0
    assert 0.05 < zero.mean() < 1
    assert np.abs(slope[zero]).max() <= problem.alpha * 1.005
    np.testing.assert_allclose(slope[~zero], -problem.alpha * np.sign(coef[~zero]), rtol=5e-3)


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_no_epoch_raises_the_objective(loss):
    problem = problem_of(loss, n_rows=200, alpha=1e-4)
    objectives = [r["objective"] for r in run(problem, CoordinateDescent(0.1)).history]
    assert np.all(np.diff(objectives) <= 1e-12)
    assert objectives[-1] == pytest.approx(min(objectives))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_squared_error_has_the_optimum_of_lasso(scheme):
    problem = problem_of(n_rows=600)
    fit = run(problem, CoordinateDescent(TIGHT, scheme), max_epochs=5000)
    Z = problem.features.transform(problem.source[slice(None)])
    lasso = Lasso(problem.alpha, fit_intercept=False, tol=1e-10, max_iter=100_000)
    lasso.fit(Z, problem.target[:, 0], sample_weight=problem.weight)
    least = problem.objective(lasso.coef_[:, None])
    assert fit.state.objective == pytest.approx(least, rel=1e-6)
    assert problem.objective(fit.state.coef) == pytest.approx(fit.state.objective, rel=1e-12)
    # Bins of the same rows can share a coefficient in any way: functions are compared.
    difference = Z @ (fit.state.coef[:, 0] - lasso.coef_)
    assert np.abs(difference[problem.weight > 0]).max() < 1e-3
    assert np.count_nonzero(fit.state.coef) < 0.7 * len(lasso.coef_)


def correlated_problem(loss=None, **more):
    """Few large cells a grid, more of them than rows, and a small penalty."""
    return problem_of(loss, "large_cells", n_rows=500, alpha=3e-5, **more)


@pytest.mark.parametrize("loss", [SquaredError(), LogLoss(), Huber(0.3)], ids=repr)
@pytest.mark.parametrize("largest", [2048, 0], ids=["direct", "conjugate gradients"])
def test_correlated_bins_take_few_epochs(loss, largest, monkeypatch):
    """Coordinate descent alone takes thousands."""
    monkeypatch.setattr("rkhs.solvers._support._LARGEST", largest)
    problem = correlated_problem(loss)
    fit = run(problem, CoordinateDescent(1e-2), max_epochs=60 if largest else 1000)
    assert fit.state.converged
    slope = gradient(problem, fit.state.coef)
    assert np.abs(slope).max() <= problem.alpha * 1.02


def test_second_moments_on_a_support_are_those_of_its_columns():
    problem = correlated_problem()
    state = CoordinateDescent().init(problem)
    rng = np.random.default_rng(0)
    first, more = np.split(rng.permutation(problem.operator.shape[1])[:90], [50])
    bend = rng.uniform(size=len(problem.weight))
    Z = problem.features.transform(problem.source[slice(None)]).toarray()[state.columns.order]
    known = state.columns.second_moment(np.sort(first), bend, 2)
    support = np.concatenate([np.sort(first), np.sort(more)])
    grown = state.columns.second_moment(support, bend, 3, known)
    exact = (Z * bend[:, None]).T @ Z
    np.testing.assert_allclose(known, exact[np.ix_(np.sort(first), np.sort(first))], rtol=1e-12)
    np.testing.assert_allclose(grown, exact[np.ix_(support, support)], rtol=1e-12)
    assert state.columns.entries_in(support) == pytest.approx(
        problem.weight @ (Z[np.argsort(state.columns.order)][:, support] > 0).sum(axis=1)
    )


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("size", [0, 90])
def test_products_with_a_support_are_those_of_its_columns(n_outputs, size, monkeypatch):
    monkeypatch.setattr("rkhs.solvers._columns._GRID_PIECE_ROWS", 64)
    problem = correlated_problem()
    columns = CoordinateDescent().init(problem).columns
    assert len(columns.pieces) > 2
    rng = np.random.default_rng(0)
    support = np.sort(rng.permutation(problem.operator.shape[1])[:size])
    Z = problem.features.transform(problem.source[slice(None)]).toarray()[columns.order][:, support]
    delta, v = rng.normal(size=(size, n_outputs)), rng.normal(size=(len(Z), n_outputs))
    one, three = (
        (columns.responses(support, delta, n_jobs), columns.gradient(support, v, n_jobs))
        for n_jobs in (1, 3)
    )
    np.testing.assert_allclose(one[0], Z @ delta, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(one[1], Z.T @ v, atol=1e-12)
    for first, second in zip(one, three, strict=True):
        np.testing.assert_array_equal(first, second)


def test_logistic_loss_has_the_optimum_of_liblinear():
    X, y, _ = table(600)
    alpha = 1e-3
    model = KernelClassifier(
        kernel=Laplacian(2.0),
        features=RandomBinning(12, random_state=0),
        penalty="l1",
        alpha=alpha,
        tol=TIGHT,
        dtype="float64",
    ).fit(X, y > 0)
    Z = model.features_.transform(X)
    other = LogisticRegression(
        l1_ratio=1.0,
        C=1.0 / (len(X) * alpha),
        solver="liblinear",
        fit_intercept=False,
        tol=1e-8,
        max_iter=1000,
    ).fit(Z, y > 0)
    w = other.coef_[0]
    least = np.logaddexp(0.0, np.where(y > 0, -1, 1) * (Z @ w)).mean() + alpha * np.abs(w).sum()
    assert model.history_[-1]["objective"] == pytest.approx(least, rel=1e-6)
    assert np.abs(model.decision_function(X) - Z @ w).max() < 1e-2


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("space", MAPS)
@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_with_the_l2_penalty_it_has_the_exact_optimum(loss, space, scheme):
    problem = problem_of(loss, space, n_rows=120, alpha=1e-2, penalty="l2")
    least, coef = exact_objective(problem)
    fit = run(problem, CoordinateDescent(TIGHT, scheme), max_epochs=5000)
    assert least * (1 - 1e-9) <= fit.state.objective <= least * (1 + 1e-4)
    assert np.abs(fit.state.coef - coef).max() < 2e-2 * np.abs(coef).max()


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_random_scheme_converges_for_any_batch(batch, monkeypatch):
    monkeypatch.setattr("rkhs.solvers._columns._GRID_PIECE_ROWS", 64)
    problem = problem_of(n_rows=200, alpha=5e-3)
    least = run(problem, CoordinateDescent(TIGHT)).state.objective
    solver = CoordinateDescent(1e-2, "random", batch=batch)
    assert run(problem, solver, max_epochs=5000).state.objective == pytest.approx(least, rel=1e-4)


def test_a_batch_of_dense_columns_gains_nothing_and_one_of_bins_does():
    """An epoch of larger batches falls less, by the paper's factor: D for dense features."""

    def first_fall(space, batch):
        problem = problem_of(space=space, alpha=1e-3)
        start = problem.objective(np.zeros(problem.coef_shape))
        solver = CoordinateDescent(1e9, "random", batch)
        return start - run(problem, solver, max_epochs=1).state.objective

    assert first_fall("random_fourier", 30) < 0.5 * first_fall("random_fourier", 1)
    assert first_fall("random_binning", 4) > 0.8 * first_fall("random_binning", 1)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("space", MAPS)
@pytest.mark.parametrize("loss", [SquaredError(), LogLoss()], ids=repr)
def test_result_does_not_depend_on_the_number_of_threads(loss, space, scheme, monkeypatch):
    for name in ("_PIECE_ROWS", "_GRID_PIECE_ROWS"):
        monkeypatch.setattr(f"rkhs.solvers._columns.{name}", 64)
    solver = CoordinateDescent(scheme=scheme)

    def five_epochs(n_jobs):
        problem = problem_of(loss, space, n_jobs=n_jobs)
        state = solver.init(problem)
        for _ in range(5):
            state = solver.step(problem, state)
        return state

    one, two = five_epochs(1), five_epochs(2)
    assert len(two.columns.pieces) > 2
    np.testing.assert_array_equal(one.coef, two.coef)


def test_weights_are_repetitions():
    X, y, _ = table(300)
    weight = np.random.default_rng(0).integers(0, 3, size=len(X))
    model = KernelRegressor(
        kernel=Laplacian(2.0),
        features=RandomBinning(8, random_state=0),
        penalty="l1",
        alpha=1e-3,
        tol=TIGHT,
        dtype="float64",
        random_state=0,
    )
    weighted = model.fit(X, y, sample_weight=weight).predict(X)
    again = np.repeat(np.arange(len(X)), weight)
    repeated = model.fit(X[again], y[again]).predict(X)
    seen = weight > 0
    assert np.abs(weighted - repeated)[seen].max() < 1e-3 * np.abs(repeated).max()


def test_rows_whose_bins_are_not_kept_give_the_same_fit():
    problem = problem_of()
    kept = run(problem, CoordinateDescent(TIGHT))
    source = RowSource(problem.source[slice(None)])
    operator = problem.features.operator(source, np.float64)
    assert problem.operator.keeps_all and not operator.keeps_all
    found = run(replace(problem, source=source, operator=operator), CoordinateDescent(TIGHT))
    assert found.state.objective == pytest.approx(kept.state.objective, rel=1e-9)
    assert operator.keeps_all


def test_a_path_starts_from_the_last_alpha_and_ends_at_the_same_optimum():
    problem = problem_of()
    alphas = [1e-2, 3e-3, 1e-3, 3e-4]
    solver = CoordinateDescent(1e-3)
    fits = list(path(problem, solver, alphas))
    single = [run(replace(problem, alpha=alpha), solver) for alpha in alphas]
    for warm, cold in zip(fits, single, strict=True):
        assert warm.state.objective == pytest.approx(cold.state.objective, rel=1e-6)
    assert fits[-1].history[0]["objective"] < single[-1].history[0]["objective"]
    counts = [np.count_nonzero(fit.state.coef) for fit in fits]
    assert counts == sorted(counts) and counts[0] < counts[-1]


def test_warm_start_begins_where_the_last_fit_ended():
    X, y, _ = table(300)
    model = KernelRegressor(
        kernel=Laplacian(2.0),
        features=RandomBinning(8),
        penalty="l1",
        alpha=1e-3,
        warm_start=True,
        random_state=0,
    ).fit(X, y)
    epochs, objective = model.n_iter_, model.history_[-1]["objective"]
    model.fit(X, y)
    assert model.n_iter_ == 1 < epochs
    assert model.history_[0]["objective"] <= objective * (1 + 1e-6)
    model.set_params(alpha=5e-4).fit(X, y)
    assert model.history_[0]["objective"] < objective


def test_auto_chooses_it_for_the_l1_penalty_and_gives_features():
    X, y, codes = table()
    model = KernelRegressor(penalty="l1", alpha=1e-2).fit(X, y)
    assert isinstance(model.solver_, CoordinateDescent)
    assert isinstance(model.features_, Nystrom)
    softmax = KernelClassifier(
        penalty="l1", alpha=1e-3, features=RandomFourier(200), random_state=0
    ).fit(X, codes)
    assert isinstance(softmax.loss_, Softmax)
    assert (softmax.expansion_.coef == 0).any()
    assert softmax.score(X, codes) > 0.6


def test_bad_pairings_are_refused_with_a_way_out():
    with pytest.raises(ValueError, match=r'penalty="l1" needs a smooth loss.*squared_hinge'):
        CoordinateDescent().check(Hinge(), Nystrom(), 0.1, "l1")
    with pytest.raises(ValueError, match=r"whole\s+space.*random_binning"):
        CoordinateDescent().check(SquaredError(), None, 0.1, "l1")
    with pytest.raises(ValueError, match=r"works on features"):
        CoordinateDescent().check(SquaredError(), None, 0.1)
    with pytest.raises(ValueError, match="scheme"):
        CoordinateDescent(scheme="cyclic").check(SquaredError(), Nystrom(), 0.1)
    with pytest.raises(ValueError, match="batch"):
        CoordinateDescent(batch=0).check(SquaredError(), Nystrom(), 0.1)
    for solver in (Exact(), NewtonCG()):
        with pytest.raises(ValueError, match=r'no penalty=.l1.*"coordinate_descent"'):
            solver.check(SquaredError(), Nystrom(), 0.1, "l1")
    X, y, _ = table()
    with pytest.raises(ValueError, match='penalty must be "l2" or "l1"'):
        KernelRegressor(penalty="l0").fit(X, y)
    with pytest.raises(MemoryError, match="memory_limit"):
        KernelRegressor(
            penalty="l1", features=RandomFourier(20_000), memory_limit="8MB", alpha=1e-2
        ).fit(X, y)


def test_it_reaches_the_exact_objective_on_nystrom_features():
    problem = make_problem(SquaredError(), "nystrom")
    least, _ = exact_objective(problem)
    reached = run(problem, CoordinateDescent(TIGHT)).state.objective
    assert reached == pytest.approx(least, rel=1e-3)
