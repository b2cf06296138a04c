"""Preconditioned conjugate gradients for the squared error."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from rkhs.compute import add_multiple, dots, multiply_and_add, single_threaded_blas
from rkhs.solvers import _preconditioner
from rkhs.solvers._base import Solver, State

_PART_STEPS, _PART_TOL = 20, 10.0  # of parts alone, before all together


@dataclass
class _CGState(State):
    """CG's vectors in the unknown's own coordinates (see `_System`), changed in place."""

    unknown: np.ndarray = field(default_factory=lambda: np.empty(0))
    residual: np.ndarray = field(default_factory=lambda: np.empty(0))
    direction: np.ndarray = field(default_factory=lambda: np.empty(0))
    energy: np.ndarray = field(default_factory=lambda: np.empty(0))  # r.M^-1 r, an output each
    first_energy: np.ndarray = field(default_factory=lambda: np.empty(0))
    system: "_System | None" = None
    product: np.ndarray = field(default_factory=lambda: np.empty(0))


@dataclass
class _System:
    """A symmetric positive system ``apply(u) + alpha u = right`` and its preconditioner."""

    apply: Callable[[np.ndarray, np.ndarray | None], np.ndarray]  # written to the second
    right: np.ndarray
    precondition: Callable[[np.ndarray], np.ndarray]
    to_coef: Callable[[np.ndarray], np.ndarray]
    start: np.ndarray | None
    constant: float  # the loss of the function zero


class ConjugateGradient(Solver):
    """Preconditioned conjugate gradients: kernel ridge regression, all outputs at once.

    With features, solves ``(Z^T S Z + alpha I) w = Z^T S t`` with S the weights; without,
    the kernel system ``(K + alpha S^-1) a = t``. With `Nystrom` features and the default
    preconditioner this is FALKON [rudi2017]_.

    Parameters
    ----------
    tol : float, default=1e-3
        Stop when the error, in the norm of the problem, has fallen by this factor.
    preconditioner : {"nystrom", None}, default="nystrom"
        "nystrom" approximates the system from a sample of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs import KernelRegressor
    >>> from rkhs.solvers import ConjugateGradient
    >>> X = np.linspace(0, 6, 300)[:, None]
    >>> model = KernelRegressor(features=None, solver=ConjugateGradient(tol=1e-4))
    >>> round(model.fit(X, np.sin(X[:, 0])).score(X, np.sin(X[:, 0])), 2)
    1.0
    """

    needs = "quadratic"
    takes_rows = True
    max_epochs = 200

    def __init__(self, tol=1e-3, preconditioner="nystrom"):
        self.tol = tol
        self.preconditioner = preconditioner

    def check(self, loss, features, alpha, penalty="l2"):
        super().check(loss, features, alpha, penalty)
        if self.preconditioner not in ("nystrom", None):
            raise ValueError(
                f'preconditioner must be "nystrom" or None, got {self.preconditioner!r}.'
            )

    def memory(self, operator, n_outputs, has_features, budget):
        vectors = super().memory(operator, n_outputs, has_features, budget)
        if self.preconditioner is None:
            return vectors
        plan = _preconditioner.feature_plan if has_features else _preconditioner.kernel_plan
        return vectors + plan(operator, budget, n_outputs)[1]

    def init(self, problem):
        if problem.start is None and not problem.in_rows and problem.operator.parts:
            problem = replace(problem, start=self._one_by_one(problem))
        build = _kernel_system if problem.in_rows else _feature_system
        system = build(problem, self.preconditioner is not None)
        residual = system.right.copy()
        unknown = np.zeros_like(residual)
        if system.start is not None:
            unknown[...] = system.start
            residual -= system.apply(unknown, None) + problem.alpha * unknown
        direction = np.array(system.precondition(residual), order="C")
        energy = dots(residual, direction, problem.n_jobs)
        first = energy
        if system.start is not None:
            first = dots(system.right, system.precondition(system.right), problem.n_jobs)
        state = _CGState(
            system.to_coef(unknown), np.nan, False, "", unknown, residual, direction, energy, first
        )
        state.system = system
        state.product = np.empty_like(residual)
        return self._measured(problem, state)

    def _one_by_one(self, problem):
        """Coefficients of features side by side, each part fitted to what those before leave.

        All at once, CG would first have to find out what belongs to which part.
        """
        target, coef = problem.target, []
        for features, operator in zip(problem.features.maps_, problem.operator.parts, strict=True):
            own = replace(problem, features=features, operator=operator, target=target)
            state = self.init(own)
            for _ in range(_PART_STEPS):
                if np.all(state.energy <= (_PART_TOL * self.tol) ** 2 * state.first_energy):
                    break
                state = self.step(own, state)
            coef.append(state.coef)
            target = target - operator.matmat(state.coef)
        return np.vstack(coef)

    def step(self, problem, state):
        with single_threaded_blas:  # but for the operator's own threads, vectors only
            return self._iterate(problem, state)

    def _iterate(self, problem, state):
        # In place: the vectors may be far longer than the data.
        system, n_jobs = state.system, problem.n_jobs
        unknown, residual, direction = state.unknown, state.residual, state.direction
        product = system.apply(direction, state.product)
        add_multiple(product, problem.alpha, direction, n_jobs)
        # Outputs that have converged have no direction left: their step is zero.
        size = _ratio(state.energy, dots(direction, product, n_jobs))
        add_multiple(unknown, size, direction, n_jobs)
        add_multiple(residual, -size, product, n_jobs)
        preconditioned = np.ascontiguousarray(system.precondition(residual))
        energy = np.maximum(dots(residual, preconditioned, n_jobs), 0.0)
        multiply_and_add(direction, _ratio(energy, state.energy), preconditioned, n_jobs)
        state = _CGState(
            system.to_coef(unknown),
            np.nan,
            False,
            state.note,
            unknown,
            residual,
            direction,
            energy,
            state.first_energy,
            system,
            product,
        )
        return self._measured(problem, state)

    def _measured(self, problem, state):
        """Objective and convergence, without another pass over the data."""
        system, n_jobs = state.system, problem.n_jobs
        if problem.in_rows:
            # f S^1/2 is what the residual says of it; loss and penalty follow.
            wrong = state.residual + problem.alpha * state.unknown
            loss = dots(wrong, wrong, n_jobs)
            norm = dots(state.unknown, system.right - wrong, n_jobs)
            state.objective = 0.5 * float((loss + problem.alpha * norm).sum())
        else:
            # One after the other: a sum of the two would be new memory.
            gain = dots(state.unknown, system.right, n_jobs)
            gain += dots(state.unknown, state.residual, n_jobs)
            state.objective = system.constant - 0.5 * float(gain.sum())
        error, first = state.energy, state.first_energy
        if problem.by_rows:  # the norm of the residual bounds that of the function's error
            error, first = (dots(v, v, problem.n_jobs) for v in (state.residual, system.right))
        state.converged = bool(np.all(error <= self.tol**2 * first))
        return state


def _ratio(above, below):
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def _feature_system(problem, preconditioned):
    weight = problem.weight[:, None]

    def apply(w, out):
        return problem.operator.gram(w, weight, out)

    right = np.ascontiguousarray(problem.operator.rmatmat(weight * problem.target))
    precondition = _identity
    if preconditioned:
        precondition = _preconditioner.for_features(problem).factor(
            problem.weight, None, problem.alpha
        )
    return _System(apply, right, precondition, _identity, problem.start, _constant(problem))


def _kernel_system(problem, preconditioned):
    # Unknown b with a = S^1/2 b: (S^1/2 K S^1/2 + alpha) b = S^1/2 t is symmetric, and rows
    # of weight zero drop out.
    root = np.sqrt(problem.weight)[:, None]

    def apply(b, out):
        return np.multiply(root, problem.evaluate(root * b), out=out)

    precondition = _identity
    if preconditioned:
        precondition = _preconditioner.for_rows(problem).factor(problem.weight, None, problem.alpha)
    start = None
    if problem.start is not None:
        start = np.divide(problem.start, root, out=np.zeros(problem.coef_shape), where=root > 0)
    return _System(
        apply, root * problem.target, precondition, lambda b: root * b, start, _constant(problem)
    )


def _constant(problem):
    return problem.loss.value(np.zeros_like(problem.target), problem.target, problem.weight)


def _identity(x):
    return x
