"""Newton steps of coordinate descent over the coefficients that are not zero."""

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky

from rkhs.compute import blas_for
from rkhs.solvers._columns import SMALLEST
from rkhs.solvers._newton_cg import conjugate_gradients, weighted_hessian
from rkhs.solvers._responses import objective_at, second_derivatives, table_order

_LARGEST = 2048  # coefficients whose second moment is worth a factorisation
_COPIES = 5  # of that matrix, while it is worked on
_PRODUCTS = 64  # with the operator that the matrix may cost
_TRIALS = 4  # step sizes
_SIZES = (1.0, 0.3, 0.1, 0.03)
_INNER = 25  # iterations of conjugate gradients
_INNER_PRECISION = 1e-4
_PRECISION = 0.1  # of the minimisation on a support, in terms of the violations elsewhere
_SWEEPS = 3
_STEPS = 20  # Newton steps of that minimisation
_RIDGE = 1e-10  # of the diagonal: bins of the same rows make the matrix singular


def moment_bytes(n_columns: int, budget: int) -> int:
    """Memory of the second moment on a support, if it may take `budget`."""
    return min(8 * _COPIES * min(n_columns, _LARGEST) ** 2, budget)


def improved(problem, state, tolerance: float):
    """Coefficients and responses with a lower objective, or None."""
    sparse = problem.penalty == "l1"
    if sparse:
        supports = [np.flatnonzero(w != 0) for w in state.coef.T]
        if not any(map(len, supports)):
            return None
        if _is_small(problem, state, supports):
            return _direct(problem, state, supports, tolerance)
    return _by_conjugate_gradients(problem, state, sparse)


def _is_small(problem, state, supports):
    """Whether second moments on the supports are worth their time and memory."""
    columns = state.columns
    if not columns.whole_epochs or problem.loss.coupled:
        return False
    if max(map(len, supports)) > _room(problem):
        return False
    cost = sum(0.5 * columns.entries_in(support) ** 2 for support in supports)
    return cost <= _PRODUCTS * columns.n_fixed * len(supports)


def _room(problem):
    """The largest support whose second moment has room in memory."""
    return min(_LARGEST, int((problem.memory / (8 * _COPIES)) ** 0.5))


def _direct(problem, state, supports, tolerance):
    """Minimise the second-order expansion on the support of each output, in place."""
    columns, coef, n_jobs = state.columns, state.coef, problem.n_jobs
    used = np.unique(np.concatenate(supports))
    gradient = columns.gradient(used, state.slopes, n_jobs)
    delta = np.zeros_like(gradient)
    second = None if problem.loss.quadratic else second_derivatives(problem, state)
    precision = max(0.3 * tolerance, _PRECISION * state.largest)
    for c, support in enumerate(supports):
        if not len(support):
            continue
        if second is None:
            moment = _kept_moment(problem, state, support)
        else:
            moment = columns.second_moment(support, state.weight * second[:, c], n_jobs)
        here, w = np.searchsorted(used, support), coef[support, c]
        new = _minimised(moment, gradient[here, c], w, problem.alpha, precision)
        delta[here, c] = new - w
    along, size = columns.responses(used, delta, n_jobs), 1.0
    before = coef[used]
    for _ in range(_TRIALS):
        coef[used] = before + size * delta
        f = state.f + size * along
        if objective_at(problem, state, coef, f) < state.objective:
            return coef, f
        size *= 0.25
    coef[used] = before
    return None


def _kept_moment(problem, state, support):
    """The second moment on a support, from what is kept of earlier ones.

    For the squared error it never changes, and supports change little.
    """
    kept, moment = state.moment
    new = np.setdiff1d(support, kept)
    if len(kept) + len(new) > _room(problem):
        kept, moment, new = np.empty(0, np.intp), None, support
    if len(new):
        kept = np.concatenate([kept, new])
        moment = state.columns.second_moment(kept, state.weight, problem.n_jobs, moment)
        state.moment = kept, moment
    order = np.argsort(kept)
    place = order[np.searchsorted(kept, support, sorter=order)]
    return moment[np.ix_(place, place)]


def _minimised(moment, slope, w, alpha, precision):
    """Minimise ``slope.(v - w) + (v - w) moment (v - w) / 2 + alpha |v|`` from v = w.

    Sweeps of coordinate descent find signs, and Newton steps the minimum for these.
    """
    from rkhs.compute import _coordinate_loops

    v, first, start = w, slope, w
    steps = 0
    while True:
        out = np.empty((len(v), 1))
        worst = _coordinate_loops.descend(
            slope[:, None].copy(), v[:, None].copy(), moment, alpha, True, 0.0, _SWEEPS, out
        )
        v = out[:, 0]
        slope = first + moment @ (v - start)
        if worst <= precision or steps >= _STEPS:
            return v
        for _ in range(_STEPS // 2):
            steps += 1
            new, settled = _newton_step(moment, slope, v, alpha)
            if new is None:
                break
            v, slope = new, slope + moment @ (new - v)
            if settled:
                break


def _newton_step(moment, slope, v, alpha):
    """A Newton step over what is not zero, and whether no sign changed; None if it fails.

    What would change its sign becomes zero, if this lowers the objective. If not, the step
    goes as far as it helps: where columns depend on each other the objective falls in a
    straight line until a sign changes.
    """
    used = np.flatnonzero(v)
    if not len(used):
        return None, False
    old, sign = v[used], np.sign(v[used])
    matrix = moment[np.ix_(used, used)]
    steepness = slope[used] + alpha * sign
    step = -_solved(matrix.copy(), steepness)

    def change(new):
        delta = new - old
        bend = 0.5 * (matrix @ delta) @ delta
        return slope[used] @ delta + bend + alpha * (np.abs(new).sum() - np.abs(old).sum())

    new = v.copy()
    for size in _SIZES:
        trial = old + size * step
        kept = np.sign(trial) == sign
        trial[~kept] = 0.0
        if change(trial) < 0:
            new[used] = trial
            return new, size == 1.0 and bool(kept.all())
    trial = _furthest(old, step, steepness, matrix @ step, alpha)
    new[used] = trial
    return (new if change(trial) < 0 else None), False


def _furthest(old, step, steepness, bent, alpha):
    """The minimum along a step; the derivative jumps where a coefficient passes zero."""
    first, bend = float(steepness @ step), float(bent @ step)
    with np.errstate(divide="ignore", invalid="ignore"):
        passes = -old / step
    order = np.flatnonzero((passes > 0) & np.isfinite(passes))
    order = order[np.argsort(passes[order])]
    slopes = first + np.cumsum(2.0 * alpha * np.abs(step[order])) + bend * passes[order]
    last = int(np.argmax(slopes >= 0)) if (slopes >= 0).any() else len(order)
    before = first + 2.0 * alpha * np.abs(step[order[:last]]).sum()
    size = -before / bend if bend > 0 else 0.0
    if last == len(order) or size < passes[order[last]]:
        return old + size * step
    new = old + passes[order[last]] * step
    new[order[last]] = 0.0
    return new


def _solved(matrix, right):
    """Solve a positive semi-definite system, a little of its diagonal added."""
    ridge = _RIDGE
    diagonal = np.diagonal(matrix).copy()
    with blas_for(len(matrix)):
        while True:
            matrix[np.diag_indices_from(matrix)] = (1.0 + ridge) * diagonal
            try:
                factor = cholesky(matrix, lower=True, check_finite=False)
            except LinAlgError:
                ridge *= 100.0
            else:
                return cho_solve((factor, True), right, check_finite=False)


def _by_conjugate_gradients(problem, state, sparse):
    """A Newton step over all coefficients that are not zero, scaled by the Hessian's diagonal.

    Where signs stay as they are the penalty is smooth. Coefficients that would change sign
    become zero. [wen2010]_
    """
    coef = state.coef
    support = coef != 0 if sparse else np.ones(coef.shape, bool)
    f = table_order(state, state.f)
    gradient = problem.adjoint(problem.derivative(f))
    gradient += problem.alpha * (np.sign(coef) if sparse else coef)
    ridge = 0.0 if sparse else problem.alpha
    hessian = weighted_hessian(problem, f)
    # The vectors are those of the rows of coefficients that the support meets: often few.
    used = np.flatnonzero(support.any(axis=1))
    support = support[used]
    scale = support / np.maximum(state.curvature[used] + ridge, SMALLEST)
    whole, whole_product = np.zeros_like(gradient), np.empty_like(gradient)

    def multiply(p):
        whole[used] = p
        problem.operator.gram(whole, hessian, whole_product)
        return support * whole_product[used] + ridge * p

    whole[used] = conjugate_gradients(
        multiply, -gradient[used] * support, lambda r: scale * r, _INNER, lambda _: _INNER_PRECISION
    )
    size = 1.0
    for _ in range(_TRIALS):
        new = coef + size * whole
        if sparse:
            new[np.sign(new) != np.sign(coef)] = 0.0
        change = new[used] - coef[used]
        responses = state.f + state.columns.responses(used, change, problem.n_jobs)
        if objective_at(problem, state, new, responses) < state.objective:
            return new, responses
        size *= 0.25
    return None
