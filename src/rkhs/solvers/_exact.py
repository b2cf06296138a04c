"""Direct solutions for few rows: the yardstick of all other solvers."""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq
from scipy.sparse import issparse

from rkhs.compute import blas_for
from rkhs.solvers import _box
from rkhs.solvers._base import Solver, State

_NEWTON_STEPS = 100
_GAP = 1e-6  # relative duality gap of a kinked loss
_AT_MINIMUM = 1e-8  # share of the objective that one more Newton step would promise


class Exact(Solver):
    """The exact minimiser through the Gram matrix, in float64.

    Cholesky for the squared error, Newton's method for smooth losses, an interior point
    method on the dual for losses with a kink. Memory grows with the square of the number
    of rows, and time with its cube: for up to some thousand rows.

    Parameters
    ----------
    tol : float, default=1e-12
        Relative duality gap (kinked losses) or relative decrease (smooth ones) to stop at.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from rkhs import KernelRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelRegressor(solver="exact", features=None).fit(X, y)
    >>> model.n_iter_
    1
    """

    whole_space = True
    max_epochs = 1
    dtype = np.float64

    def __init__(self, tol=1e-12):
        self.tol = tol

    def memory(self, operator, n_outputs, has_features, budget):
        gram = 8 * 4 * operator.shape[0] ** 2
        return gram + super().memory(operator, n_outputs, has_features, budget)

    def init(self, problem):
        return State(problem.starting_coef())

    def step(self, problem, state):
        with blas_for(len(problem.target)):
            return self._solve(problem)

    def _solve(self, problem):
        used = np.flatnonzero(problem.weight > 0)
        rows = problem.operator.take(used)
        gram = rows @ rows.T if problem.features is not None else rows[:, used]
        gram = gram.toarray() if issparse(gram) else gram
        gram = np.asarray(gram, dtype=np.float64)
        target = np.asarray(problem.target[used], dtype=np.float64)
        weight = problem.weight[used]
        converged = True
        if problem.loss.quadratic:
            dual = _ridge(gram, target, weight, problem.alpha)
        elif problem.alpha <= 0:
            raise ValueError(f"Exact needs alpha > 0 for {problem.loss!r}, got {problem.alpha!r}.")
        elif problem.loss.curvature is None:
            dual, converged = _kinked(problem, gram, target, weight, self.tol)
        else:
            dual, converged = _newton(problem, gram, target, weight, self.tol)
        coef = np.zeros(problem.coef_shape)
        if problem.features is not None:
            coef = rows.T @ dual
        else:
            coef[used] = dual
        f = gram @ dual
        objective = problem.loss.value(f, target, weight)
        objective += 0.5 * problem.alpha * float(np.vdot(dual, f))
        return State(coef, objective, converged)


def _ridge(gram, target, weight, alpha):
    """(K + alpha S^-1) a = t, symmetric with a = S^1/2 b."""
    root = np.sqrt(weight)[:, None]
    system = root * gram * root.T
    system[np.diag_indices_from(system)] += alpha
    right = root * target
    try:
        return root * cho_solve(cho_factor(system, lower=True), right)
    except LinAlgError:  # alpha = 0 and repeated rows: the solution of least norm
        return root * lstsq(system, right)[0]


def _newton(problem, gram, target, weight, tol):
    """Newton's method in the function values, with a line search.

    A step solves (alpha K^-1 + W) f_new = W f - g, W the Hessian and g the derivative of
    the loss at f = K a. For a diagonal W that is one Cholesky factor; for softmax, W is
    diagonal minus rank one in each row, which costs one factor more. [rasmussen2006]_
    """
    loss, alpha = problem.loss, problem.alpha
    weight = weight[:, None]
    dual, f = np.zeros_like(target), np.zeros_like(target)

    def objective(dual, f):
        return loss.value(f, target, weight[:, 0]) + 0.5 * alpha * float(np.vdot(dual, f))

    value = objective(dual, f)
    for _ in range(_NEWTON_STEPS):
        slope = weight * loss.derivative(f, target)
        right = weight * loss.hessian_product(f, target, f) - slope
        full = _newton_dual(loss, gram / alpha, right, f, target, weight) / alpha
        direction = full - dual
        along = gram @ direction
        promised = -float(np.vdot(slope + alpha * dual, along))
        size = 1.0
        while size > 1e-10:
            new_value = objective(dual + size * direction, f + size * along)
            if new_value <= value:
                break
            size *= 0.5
        else:
            # No way down: the minimum to rounding, or a system too singular to solve.
            return dual, abs(promised) <= _AT_MINIMUM * abs(value)
        dual, f = dual + size * direction, f + size * along
        decrease, value = value - new_value, new_value
        if decrease <= tol * abs(value) and promised <= _AT_MINIMUM * abs(value):
            return dual, True
    return dual, False


def _newton_dual(loss, kernel, right, f, target, weight):
    if loss.coupled:
        diagonal = weight * loss.probability(f)
    else:
        diagonal = weight * loss.second_derivative(f, target)
    corrected = np.empty_like(right)
    inverses = []
    for output in range(right.shape[1]):
        root = np.sqrt(diagonal[:, output])
        system = root[:, None] * kernel * root
        system[np.diag_indices_from(system)] += 1.0
        inverse = root[:, None] * cho_solve(cho_factor(system, lower=True), np.diag(root))
        corrected[:, output] = inverse @ (kernel @ right[:, output])
        if loss.coupled:
            inverses.append(inverse)
    if not loss.coupled:
        return right - corrected
    total = cho_factor(sum(inverses), lower=True)
    shared = cho_solve(total, corrected.sum(axis=1))
    return right - corrected + np.stack([inverse @ shared for inverse in inverses], axis=1)


def _kinked(problem, gram, target, weight, tol):
    box = problem.loss.dual(target)
    scale = weight / problem.alpha
    columns = [
        _box.minimise(
            gram,
            box.linear[:, output],
            scale * box.lower[:, output],
            scale * box.upper[:, output],
            box.epsilon,
            tol,
        )
        for output in range(target.shape[1])
    ]
    dual = np.stack(columns, axis=1)
    # The gap of what is returned, whatever rounding did on the way: a box far wider than the
    # solution (a tiny alpha) leaves few digits.
    f = gram @ dual
    norm = problem.alpha * float(np.vdot(dual, f))
    value = problem.loss.value(f, target, weight) + 0.5 * norm
    linear = float(np.vdot(box.linear, dual)) - box.epsilon * float(np.abs(dual).sum())
    return dual, value - (problem.alpha * linear - 0.5 * norm) <= _GAP * abs(value)
