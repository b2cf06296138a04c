"""Each solver on each loss it accepts, in each space it works in."""

import numpy as np
import pytest
from helpers import DETERMINISTIC, LOSSES, SPACES, STOCHASTIC, exact_objective, make_problem

from rkhs.data import RowSource
from rkhs.driver import run
from rkhs.features import Nystrom, RandomBinning
from rkhs.kernels import Laplacian
from rkhs.losses import Hinge, LogLoss, Softmax, SquaredError
from rkhs.operators import BinnedOperator
from rkhs.problem import Problem
from rkhs.solvers import SGD, ConjugateGradient, Exact, NewtonCG, Pegasos
from rkhs.solvers._preconditioner import DiagonalPreconditioner

CASES = [
    pytest.param(solver, loss, space, id=f"{solver}-{loss}-{space}")
    for solver in DETERMINISTIC
    for loss in LOSSES
    for space in SPACES
    if solver.accepts(loss)
]


def assert_reaches_exact(problem, solver, max_epochs):
    least, _ = exact_objective(problem)
    reached = problem.objective(run(problem, solver, max_epochs=max_epochs).state.coef)
    assert least * (1 - 1e-4) <= reached <= least * (1 + 1e-3)


@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize(("solver", "loss", "space"), CASES)
def test_solver_reaches_the_exact_objective(solver, loss, space, weighted):
    assert_reaches_exact(make_problem(loss, space, weighted=weighted), solver, 200)


@pytest.mark.parametrize(
    ("solver", "loss"),
    [
        pytest.param(solver, loss, id=f"{solver}-{loss}")
        for solver in STOCHASTIC
        for loss in LOSSES
        if solver.accepts(loss)
    ],
)
def test_stochastic_solver_reaches_the_exact_objective(solver, loss):
    # The theory's rate is 1 / (alpha t): kinked losses need about ten thousand steps.
    max_epochs = 900 if loss.curvature is None else 150
    assert_reaches_exact(make_problem(loss, "random_fourier"), solver, max_epochs)


@pytest.mark.parametrize("solver", STOCHASTIC, ids=repr)
def test_stochastic_solver_reaches_the_exact_objective_on_nystrom_features(solver):
    assert_reaches_exact(make_problem(LogLoss(), "nystrom", weighted=False), solver, 150)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_exact_solution_is_a_minimum(loss, space):
    """No direction leads down from the exact solution (in float64, where it can be seen)."""
    problem = make_problem(loss, space, dtype=np.float64)
    least, coef = exact_objective(problem)
    assert problem.objective(coef) == pytest.approx(least, rel=1e-9)
    rng = np.random.default_rng(0)
    for _ in range(20):
        nudge = rng.normal(size=coef.shape)
        nudge *= 1e-3 * np.linalg.norm(coef) / np.linalg.norm(nudge)
        assert problem.objective(coef + nudge) > least


@pytest.mark.parametrize("solver", [ConjugateGradient(), NewtonCG(), SGD(), Pegasos()], ids=repr)
def test_reported_objective_is_the_true_one(solver):
    problem = make_problem(SquaredError(), "random_fourier")
    fit = run(problem, solver, max_epochs=100)
    assert fit.history[-1]["objective"] == pytest.approx(
        problem.objective(fit.state.coef), rel=5e-2 if solver.needs_features else 1e-4
    )


def test_bad_pairings_are_refused_with_a_way_out():
    with pytest.raises(ValueError, match=r"quadratic loss.*squared_error.*newton_cg"):
        ConjugateGradient().check(LogLoss(), Nystrom(), 0.1)
    with pytest.raises(ValueError, match=r'smooth loss.*log_loss.*solver="sgd"'):
        NewtonCG().check(Hinge(), Nystrom(), 0.1)
    with pytest.raises(ValueError, match=r"works on features.*nystrom"):
        SGD().check(Hinge(), None, 0.1)
    with pytest.raises(ValueError, match="alpha > 0"):
        Pegasos().check(Hinge(), Nystrom(), 0.0)
    with pytest.raises(ValueError, match="preconditioner"):
        ConjugateGradient(preconditioner="jacobi").check(SquaredError(), Nystrom(), 0.1)
    with pytest.raises(ValueError, match="alpha > 0"):
        run(make_problem(Hinge(), "kernel", alpha=0.0), Exact())


@pytest.mark.parametrize("loss", [LogLoss(), Softmax()], ids=str)
def test_newton_steps_on_random_binning_are_conjugate(loss, monkeypatch):
    """A preconditioner that reuses its memory must cost no more products than one that does not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    source, codes = RowSource(X), (X[:, 0] * X[:, 1] > 0).astype(int)
    binning = RandomBinning(16, Laplacian(1.0), random_state=0)
    weight = np.full(400, 1 / 400)
    binning.fit_rows(source, weight, np.float64)
    problem = Problem(
        kernel=binning.kernel_,
        loss=loss,
        features=binning,
        alpha=1e-4,
        source=source,
        target=loss.encode(codes, 2),
        weight=weight,
        operator=binning.operator(source, np.float64),
    )

    def products():
        count = 0
        gram = BinnedOperator.gram

        def counted(*arguments):
            nonlocal count
            count += 1
            return gram(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(BinnedOperator, "gram", counted)
            run(problem, NewtonCG(tol=1e-6))
        return count

    as_is = products()
    factor = DiagonalPreconditioner.factor

    def fresh(*arguments):
        solve = factor(*arguments)
        return lambda R: solve(R).copy()

    monkeypatch.setattr(DiagonalPreconditioner, "factor", fresh)
    assert as_is == products()
