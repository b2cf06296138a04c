"""Newton's method with conjugate gradients inside, for smooth losses."""

from dataclasses import dataclass, field

import numpy as np

from rkhs.compute import add_multiple, dots, multiply_and_add, single_threaded_blas
from rkhs.solvers import _preconditioner
from rkhs.solvers._base import Solver, State

_BACKTRACKS = 30


@dataclass
class _NewtonState(State):
    f: np.ndarray = field(default_factory=lambda: np.empty(0))
    preconditioner: object = None
    at_zero: float = 0.0  # the objective


class NewtonCG(Solver):
    """Newton steps, each found by preconditioned CG to a precision that follows progress.

    A line search on the exact objective, which costs no pass over the data, keeps every
    step downhill. All outputs of a softmax are solved for together.

    Parameters
    ----------
    tol : float, default=1e-4
        Stop when a Newton step promises to lower the objective by less than this share of it, or
        by less than the square of this of what it is at zero.
    max_inner : int, default=50
        Largest number of CG iterations a Newton step.
    preconditioner : {"nystrom", None}, default="nystrom"
        "nystrom" approximates the Hessian from a sample of rows (with features only).

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs import KernelClassifier
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> y = np.abs(X[:, 0]) > 0.5
    >>> model = KernelClassifier(loss="squared_hinge", features="nystrom", solver="newton_cg")
    >>> model.fit(X, y).score(X, y) > 0.98
    True
    """

    needs = "smooth"
    takes_rows = True

    def __init__(self, tol=1e-4, max_inner=50, preconditioner="nystrom"):
        self.tol = tol
        self.max_inner = max_inner
        self.preconditioner = preconditioner

    def memory(self, operator, n_outputs, has_features, budget):
        vectors = super().memory(operator, n_outputs, has_features, budget)
        if not has_features or self.preconditioner is None:
            return vectors
        return vectors + _preconditioner.feature_plan(operator, budget, n_outputs)[1]

    def init(self, problem):
        coef = problem.starting_coef()
        f = problem.evaluate(coef) if problem.start is not None else np.zeros(problem.target.shape)
        preconditioner = None
        if self.preconditioner is not None and not problem.in_rows:
            preconditioner = _preconditioner.for_features(problem)
        at_zero = problem.loss.value(np.zeros_like(f), problem.target, problem.weight)
        objective = problem.objective(coef, f)
        return _NewtonState(coef, objective, False, "", f, preconditioner, at_zero)

    def step(self, problem, state):
        gradient = np.array(problem.adjoint(problem.derivative(state.f)))
        add_multiple(gradient, problem.alpha, state.coef, problem.n_jobs)
        search = _search_kernel if problem.in_rows else _search_features
        direction, along, slope = search(self, problem, state, gradient)
        if not slope < 0:
            return _replace(state, converged=True)
        loss, penalty = problem.loss, _penalty_along(problem, state, direction, along)
        size = 1.0
        for _ in range(_BACKTRACKS):
            f = state.f + size * along
            objective = loss.value(f, problem.target, problem.weight) + penalty(size)
            if objective <= state.objective + 1e-4 * size * slope:
                break
            size *= 0.5
        else:
            return _replace(
                state,
                converged=True,
                note="The line search found no lower value: this is the best that the "
                "precision of the features allows.",
            )
        # In place: the coefficients may be far more than the data.
        add_multiple(state.coef, size, direction, problem.n_jobs)
        converged = -slope <= 2 * self.tol * (abs(objective) + self.tol * state.at_zero)
        return _replace(state, objective=objective, converged=converged, f=f)


def _replace(state, **changes):
    return _NewtonState(**{**vars(state), **changes})


def _penalty_along(problem, state, direction, along):
    """The penalty as a function of the length of a step."""
    here = problem.inner(state.coef, state.coef, state.f)
    slope = problem.inner(state.coef, direction, along)
    bend = problem.inner(direction, direction, along)
    return lambda size: 0.5 * problem.alpha * (here + size * (2.0 * slope + size * bend))


def weighted_hessian(problem, f):
    """The weighted Hessian of the loss at f, as `Operator.gram` takes it."""
    loss, target, weight = problem.loss, problem.target, problem.weight[:, None]
    if not loss.coupled:
        return weight * loss.second_derivative(f, target)
    return lambda rows, v: weight[rows] * loss.hessian_product(f[rows], target[rows], v)


def _search_features(solver, problem, state, gradient):
    """Newton direction in coordinates where the norm is the Euclidean one."""
    hessian = weighted_hessian(problem, state.f)
    precondition = lambda r: r  # noqa: E731
    if state.preconditioner is not None:
        curvature = problem.loss.second_derivative(state.f, problem.target)
        precondition = state.preconditioner.factor(problem.weight, curvature, problem.alpha)
    product = np.empty_like(gradient)

    def multiply(p):
        problem.operator.gram(p, hessian, product)
        add_multiple(product, problem.alpha, p, problem.n_jobs)
        return product

    with single_threaded_blas:
        step = conjugate_gradients(
            multiply,
            -gradient,
            precondition,
            solver.max_inner,
            lambda first: _inner_tolerance(first, state),
            problem.n_jobs,
        )
        f = problem.evaluate(step)
        return step, f, problem.inner(gradient, step, f)


def conjugate_gradients(multiply, right, precondition, max_steps, precision, n_jobs=None):
    """Solve ``multiply(x) = right``.

    Ends when the squared norm of the residual (in that of the preconditioner) has fallen by
    the factor `precision`, a function of its first value. What the other two functions give
    may be overwritten by their next calls.
    """
    residual = np.array(right, order="C")
    z = precondition(residual)
    p, energy = np.array(z, order="C"), dots(residual, z, n_jobs).sum()
    first, x = energy, np.zeros_like(residual)
    for _ in range(max_steps):
        product = multiply(p)
        bend = dots(p, product, n_jobs).sum()
        if not bend > 0:
            break
        size = energy / bend
        add_multiple(x, size, p, n_jobs)
        add_multiple(residual, -size, product, n_jobs)
        z = precondition(residual)
        before, energy = energy, dots(residual, z, n_jobs).sum()
        if not energy > precision(first) * first:
            break
        multiply_and_add(p, energy / before, z, n_jobs)
    return x


def _search_kernel(solver, problem, state, gradient):
    """Newton direction in the kernel's geometry: inner products are a.Kb.

    One product with K an iteration: the function of the residual is computed, that of the
    direction follows by recurrence.
    """
    weight = problem.weight[:, None]
    residual = -gradient
    along_residual = problem.evaluate(residual)
    p, along = residual, along_residual
    energy = first = float(np.vdot(residual, along_residual))
    step, along_step = np.zeros_like(gradient), np.zeros_like(state.f)
    for _ in range(solver.max_inner):
        bent = problem.loss.hessian_product(state.f, problem.target, along)
        product = weight * bent + problem.alpha * p
        bend = float(np.vdot(product, along))
        if not bend > 0:
            break
        size = energy / bend
        step = step + size * p
        along_step = along_step + size * along
        residual = residual - size * product
        along_residual = problem.evaluate(residual)
        before, energy = energy, float(np.vdot(residual, along_residual))
        if not energy > _inner_tolerance(first, state) * first:
            break
        p = residual + energy / before * p
        along = along_residual + energy / before * along
    return step, along_step, float(np.vdot(gradient, along_step))


def _inner_tolerance(first, state):
    """How far CG lowers the squared norm of the residual: less far from the optimum.

    Tighter than 0.01 would cost more products than the Newton steps that it saves.
    """
    return np.clip(0.1 * first / max(abs(state.objective), np.finfo(float).tiny), 0.01, 0.1)
