"""Newton's method with conjugate gradients inside, for smooth losses."""

from dataclasses import dataclass, field

import numpy as np

from rkhs.compute import single_threaded_blas
from rkhs.solvers import _preconditioner
from rkhs.solvers._base import Solver, State

_BACKTRACKS = 30


@dataclass
class _NewtonState(State):
    f: np.ndarray = field(default_factory=lambda: np.empty(0))
    preconditioner: object = None


class NewtonCG(Solver):
    """Newton steps, each found by preconditioned CG to a precision that follows progress.

    A line search on the exact objective, which costs no pass over the data, keeps every
    step downhill. All outputs of a softmax are solved for together.

    Parameters
    ----------
    tol : float, default=1e-4
        Stop when a Newton step promises to lower the objective by less than this share.
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
        if self.preconditioner is not None and problem.features is not None:
            preconditioner = _preconditioner.for_features(problem)
        return _NewtonState(coef, problem.objective(coef, f), False, "", f, preconditioner)

    def step(self, problem, state):
        gradient = problem.adjoint(problem.derivative(state.f)) + problem.alpha * state.coef
        search = _search_features if problem.features is not None else _search_kernel
        direction, along, slope = search(self, problem, state, gradient)
        if not slope < 0:
            return _replace(state, converged=True)
        size = 1.0
        for _ in range(_BACKTRACKS):
            coef, f = state.coef + size * direction, state.f + size * along
            objective = problem.objective(coef, f)
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
        converged = -slope <= 2 * self.tol * abs(objective)
        return _NewtonState(coef, objective, converged, state.note, f, state.preconditioner)


def _replace(state, **changes):
    return _NewtonState(**{**vars(state), **changes})


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
    with single_threaded_blas:
        step = conjugate_gradients(
            lambda p: problem.operator.gram(p, hessian) + problem.alpha * p,
            -gradient,
            precondition,
            solver.max_inner,
            lambda first: _inner_tolerance(first, state),
        )
        return step, problem.evaluate(step), float(np.vdot(gradient, step))


def conjugate_gradients(multiply, right, precondition, max_steps, precision):
    """Solve ``multiply(x) = right``.

    Ends when the squared norm of the residual (in that of the preconditioner) has fallen by
    the factor `precision`, a function of its first value. What the other two functions give
    may be overwritten by their next calls.
    """
    residual = right.copy()
    z = precondition(residual)
    p, energy = z.copy(), float(np.vdot(residual, z))
    first, x = energy, np.zeros_like(residual)
    for _ in range(max_steps):
        product = multiply(p)
        bend = float(np.vdot(p, product))
        if not bend > 0:
            break
        size = energy / bend
        x += size * p
        residual -= size * product
        z = precondition(residual)
        before, energy = energy, float(np.vdot(residual, z))
        if not energy > precision(first) * first:
            break
        p *= energy / before
        p += z
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
