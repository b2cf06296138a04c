"""Preconditioned conjugate gradients for the squared error."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from rkhs.compute import single_threaded_blas
from rkhs.solvers import _preconditioner
from rkhs.solvers._base import Solver, State


@dataclass
class _CGState(State):
    """CG's vectors in the unknown's own coordinates (see `_System`)."""

    unknown: np.ndarray = field(default_factory=lambda: np.empty(0))
    residual: np.ndarray = field(default_factory=lambda: np.empty(0))
    direction: np.ndarray = field(default_factory=lambda: np.empty(0))
    energy: np.ndarray = field(default_factory=lambda: np.empty(0))  # r.M^-1 r, an output each
    first_energy: np.ndarray = field(default_factory=lambda: np.empty(0))
    system: "_System | None" = None


@dataclass
class _System:
    """A symmetric positive system ``apply(u) = right`` and its preconditioner."""

    apply: Callable[[np.ndarray], np.ndarray]
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
    max_epochs = 200

    def __init__(self, tol=1e-3, preconditioner="nystrom"):
        self.tol = tol
        self.preconditioner = preconditioner

    def check(self, loss, has_features, alpha):
        super().check(loss, has_features, alpha)
        if self.preconditioner not in ("nystrom", None):
            raise ValueError(
                f'preconditioner must be "nystrom" or None, got {self.preconditioner!r}.'
            )

    def memory(self, shape, n_outputs, has_features, budget):
        vectors = super().memory(shape, n_outputs, has_features, budget)
        if self.preconditioner is None:
            return vectors
        plan = _preconditioner.feature_plan if has_features else _preconditioner.kernel_plan
        return vectors + plan(shape[1], budget)[1]

    def init(self, problem):
        build = _feature_system if problem.features is not None else _kernel_system
        system = build(problem, self.preconditioner is not None)
        unknown = np.zeros_like(system.right) if system.start is None else system.start
        residual = system.right - (system.apply(unknown) if system.start is not None else 0.0)
        direction = system.precondition(residual)
        energy = np.einsum("ij,ij->j", residual, direction)
        first = np.einsum("ij,ij->j", system.right, system.precondition(system.right))
        state = _CGState(
            system.to_coef(unknown), np.nan, False, "", unknown, residual, direction, energy, first
        )
        state.system = system
        return self._measured(state)

    def step(self, problem, state):
        with single_threaded_blas:  # but for the operator's own threads, vectors only
            return self._iterate(problem, state)

    def _iterate(self, problem, state):
        system, direction = state.system, state.direction
        product = system.apply(direction)
        # Outputs that have converged have no direction left: their step is zero.
        size = _ratio(state.energy, np.einsum("ij,ij->j", direction, product))
        unknown = state.unknown + size * direction
        residual = state.residual - size * product
        preconditioned = system.precondition(residual)
        energy = np.maximum(np.einsum("ij,ij->j", residual, preconditioned), 0.0)
        direction = preconditioned + _ratio(energy, state.energy) * direction
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
        )
        return self._measured(state)

    def _measured(self, state):
        """Objective and convergence, without another pass over the data."""
        system = state.system
        gain = float(np.vdot(state.unknown, system.right + state.residual))
        state.objective = system.constant - 0.5 * gain
        state.converged = bool(np.all(state.energy <= self.tol**2 * state.first_energy))
        return state


def _ratio(above, below):
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def _feature_system(problem, preconditioned):
    weight = problem.weight[:, None]

    def apply(w):
        return problem.operator.gram(w, weight) + problem.alpha * w

    right = problem.operator.rmatmat(weight * problem.target)
    precondition = _identity
    if preconditioned:
        precondition = _preconditioner.for_features(problem).factor(1.0, problem.alpha)
    return _System(apply, right, precondition, _identity, problem.start, _constant(problem))


def _kernel_system(problem, preconditioned):
    # Unknown b with a = S^1/2 b: (S^1/2 K S^1/2 + alpha) b = S^1/2 t is symmetric, and rows
    # of weight zero drop out.
    root = np.sqrt(problem.weight)[:, None]

    def apply(b):
        return root * problem.evaluate(root * b) + problem.alpha * b

    precondition = _identity
    if preconditioned:
        precondition = _preconditioner.for_kernel(problem, root[:, 0]).factor(1.0, problem.alpha)
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
