"""Coordinate descent on features, with a penalty that makes models sparse."""

import numbers
from dataclasses import dataclass, field

import numpy as np

from rkhs.compute import single_threaded_blas, slices, tile_map
from rkhs.losses import LOSSES
from rkhs.solvers._base import Solver, State
from rkhs.solvers._columns import Columns, columns_bytes, columns_of
from rkhs.solvers._newton_cg import weighted_hessian

_SCHEMES = ("grid", "random")
_ROUND = 4  # epochs, of which only the first visits blocks at rest
_TRIALS = 4  # step sizes of the Newton step that ends a round
_INNER = 15  # iterations of conjugate gradients for it
_INNER_PRECISION = 1e-4
_LEAST_BEND = 0.01  # local curvature over its bound, below which it is not trusted
_ROUNDING = 1e-9
_ROWS_AT_ONCE = 8192


@dataclass
class _CoordinateState(State):
    """Arrays of rows are in the order that the columns ask for."""

    columns: Columns = field(default_factory=Columns)
    f: np.ndarray = field(default_factory=lambda: np.empty(0))
    slopes: np.ndarray = field(default_factory=lambda: np.empty(0))
    target: np.ndarray = field(default_factory=lambda: np.empty(0))
    weight: np.ndarray = field(default_factory=lambda: np.empty(0))
    curvature: np.ndarray = field(default_factory=lambda: np.empty(0))
    violations: np.ndarray = field(default_factory=lambda: np.empty(0))  # block by block
    blocks: list = field(default_factory=list)  # of this round
    scale: float = 1.0
    round: int = 0
    epoch: int = 0


class CoordinateDescent(Solver):
    r"""Minimise over a block of coefficients at a time, with ``penalty="l1"`` or "l2".

    Minimises :math:`\sum_i s_i \ell(f(x_i), t_i) + \alpha \sum_j |w_j|` ("l1"), whose
    solutions have many coefficients that are exactly zero, or
    :math:`\ldots + \frac{\alpha}{2} \sum_j w_j^2` ("l2"), over :math:`f = Z w`.

    On random binning a block is a grid. Its bins share no row, so that each is minimised
    over alone, all of them at once and without damping: exactly for the squared error, with
    the local second derivative for other smooth losses. A step that could have gone too far
    (by convexity, the slope behind it tells) is replaced by one that an upper bound of the
    curvature makes safe: no step raises the objective. On dense features a block is a run
    of columns.

    Parameters
    ----------
    tol : float, default=1e-2
        Stop when no coefficient violates the conditions of optimality by more than this share
        of `alpha` ("l1"), or of the largest entry of the gradient at f = 0 ("l2"). With "l1",
        entries of the gradient are then at most ``(1 + tol) * alpha``.
    scheme : {"grid", "random"}, default="grid"
        "random" is the parallel method of [wu2016]_: `batch` coordinates drawn at random from
        all D move at once, their steps shortened by ``1 + (R - 1) (batch - 1) / (D - 1)``,
        R the number of entries in a row: the number of grids, or D for dense features, where
        nothing is gained.
    batch : int, optional
        Coordinates that move at once. By default the mean number of bins in a grid, and one
        dense column, for "random"; 64 dense columns for "grid". Grids are taken whole.

    Notes
    -----
    With "grid", four epochs make a round. Blocks that are optimal within `tol` are visited in
    the first of them only. A Newton step over the coefficients that are not zero, by conjugate
    gradients, ends the round if it lowers the objective: it settles correlated columns, which
    coordinate descent is slow at. [wen2010]_

    Dense features are held in memory whole.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs import KernelRegressor
    >>> X = np.linspace(0, 6, 300)[:, None]
    >>> model = KernelRegressor(
    ...     kernel="laplacian", features="random_binning", penalty="l1", alpha=1e-3, random_state=0
    ... ).fit(X, np.sin(X[:, 0]))
    >>> bool(len(model.expansion_.coef) < 0.5 * model.features_.n_outputs)  # the rest is zero
    True
    >>> model.score(X, np.sin(X[:, 0])) > 0.95
    True
    """

    needs = "smooth"
    needs_features = True
    penalties = ("l2", "l1")
    max_epochs = 1000

    def __init__(self, tol=1e-2, scheme="grid", batch=None):
        self.tol = tol
        self.scheme = scheme
        self.batch = batch

    def check(self, loss, features, alpha, penalty="l2"):
        if self.scheme not in _SCHEMES:
            raise ValueError(f'scheme must be "grid" or "random", got {self.scheme!r}.')
        whole = isinstance(self.batch, numbers.Integral) and not isinstance(self.batch, bool)
        if self.batch is not None and not (whole and self.batch >= 1):
            raise ValueError(f"batch must be a positive integer or None, got {self.batch!r}.")
        if penalty == "l1" and features is None:
            raise ValueError(
                'penalty="l1" is a sum over features, and features=None asks for the kernel\'s '
                'whole space. Use features="random_binning" (with kernel="laplacian"), '
                '"random_fourier" or "nystrom", or penalty="l2".'
            )
        if penalty == "l1" and not self.accepts(loss):
            smooth = [
                repr(name)
                for name, kind in LOSSES.items()
                if kind.curvature is not None and loss.tasks[0] in kind.tasks
            ]
            raise ValueError(
                f'penalty="l1" needs a smooth loss, and {loss!r} is not. Use loss='
                f'{" or ".join(smooth)}, or penalty="l2" with solver="sgd".'
            )
        super().check(loss, features, alpha, penalty)

    def memory(self, operator, n_outputs, has_features, budget):
        vectors = super().memory(operator, n_outputs, has_features, budget)
        if self.scheme == "grid":
            vectors *= 2
        return vectors + columns_bytes(operator, self.scheme, self.batch)

    def init(self, problem):
        loss = problem.loss
        columns = columns_of(
            problem.operator, problem.weight, loss.curvature, self.scheme, self.batch
        )
        order = slice(None) if columns.order is None else columns.order
        coef = problem.starting_coef()
        f = np.zeros(problem.target.shape)
        if problem.start is not None:
            f = problem.evaluate(coef)[order]
        target, weight = problem.target[order], problem.weight[order]
        scale = problem.alpha
        if problem.penalty == "l2" or problem.alpha == 0:
            scale = np.abs(problem.adjoint(problem.derivative(np.zeros_like(f)))).max()
        return _CoordinateState(
            coef,
            columns=columns,
            f=f,
            slopes=weight[:, None] * loss.derivative(f, target),
            target=target,
            weight=weight,
            violations=np.full(columns.n_fixed, np.inf),
            scale=float(scale),
        )

    def step(self, problem, state):
        tolerance = self.tol * state.scale
        columns = state.columns
        complete = not state.blocks
        if complete:
            state.blocks = columns.blocks(problem.seed, state.epoch)
            state.curvature = _local_curvature(problem, state)
        with single_threaded_blas:
            largest = _epoch(problem, state)
        state.epoch += 1
        state.objective = _objective(problem, state, state.coef, state.f)
        state.converged = complete and largest <= tolerance
        if columns.n_fixed:
            self._continue_round(problem, state, tolerance)
        else:
            state.blocks = []
        return state

    def _continue_round(self, problem, state, tolerance):
        """Blocks at rest leave after a round's first epoch; a Newton step ends it."""
        state.blocks = [block for block in state.blocks if state.violations[block] > tolerance]
        state.round += 1
        if not state.converged and (state.round == _ROUND or not state.blocks):
            _accelerate(problem, state)
            state.blocks, state.round = [], 0


def _epoch(problem, state):
    """Visit this round's blocks once; the largest violation met."""
    largest = 0.0
    gradients = _advance(problem, state, None, state.blocks[:1])
    for position, block in enumerate(state.blocks):
        following = state.blocks[position + 1 : position + 2]
        violation, gradients = _visit(problem, state, block, gradients[-1], following)
        if state.columns.n_fixed:
            state.violations[block] = violation
        largest = max(largest, violation)
    return largest


def _objective(problem, state, coef, f):
    value = problem.loss.value(f, state.target, state.weight)
    return value + problem.penalty_value(coef, f)


def _accelerate(problem, state):
    """A Newton step by conjugate gradients over the coefficients that are not zero.

    Where signs stay as they are the penalty is smooth. Coefficients that would change sign
    become zero; the step is taken if the objective is lower there. [wen2010]_
    """
    coef, sparse = state.coef, problem.penalty == "l1"
    support = coef != 0 if sparse else np.ones(coef.shape, bool)
    if not support.any():
        return
    f = _table_order(state, state.f)
    gradient = problem.adjoint(problem.derivative(f))
    gradient += problem.alpha * (np.sign(coef) if sparse else coef)
    ridge = 0.0 if sparse else problem.alpha
    direction = _conjugate_gradients(problem, state, f, support, -gradient, ridge)
    size = 1.0
    for _ in range(_TRIALS):
        new = coef + size * direction
        if sparse:
            new[np.sign(new) != np.sign(coef)] = 0.0
        responses = _responses(problem, state, new - coef)
        objective = _objective(problem, state, new, responses)
        if objective < state.objective:
            state.coef, state.f, state.objective = new, responses, objective
            slopes = problem.loss.derivative(state.f, state.target)
            state.slopes = state.weight[:, None] * slopes
            return
        size *= 0.25


def _conjugate_gradients(problem, state, f, support, residual, ridge):
    """The Newton direction on a support, scaled by the diagonal of the Hessian."""
    hessian = weighted_hessian(problem, f)
    whole, product_whole = np.zeros_like(residual), np.empty_like(residual)
    # The vectors are those of the rows of coefficients that the support meets: often few.
    used = np.flatnonzero(support.any(axis=1))
    support, residual = support[used], residual[used] * support[used]
    scale = support / (state.curvature[used] + ridge)
    step = np.zeros_like(residual)
    z = scale * residual
    p, energy = z, float(np.vdot(residual, z))
    first = energy
    for _ in range(_INNER):
        whole[used] = p
        problem.operator.gram(whole, hessian, product_whole)
        product = support * product_whole[used] + ridge * p
        bend = float(np.vdot(p, product))
        if not bend > 0:
            break
        size = energy / bend
        step += size * p
        residual = residual - size * product
        z = scale * residual
        before, energy = energy, float(np.vdot(residual, z))
        if not energy > _INNER_PRECISION * first:
            break
        p = z + energy / before * p
    whole[used] = step
    return whole


def _responses(problem, state, delta):
    """The responses after a change of all coefficients."""
    columns = state.columns
    f = state.f.copy()

    def work(number):
        for block in range(columns.n_fixed):
            part = delta[columns.coordinates(block)]
            if part.any():
                columns.add(number, block, columns.change(block, part), f[columns.pieces[number]])

    for _ in tile_map(work, range(len(columns.pieces)), problem.n_jobs):
        pass
    return f


def _table_order(state, values):
    """Rows in the order of the table."""
    if state.columns.order is None:
        return values
    out = np.empty_like(values)
    out[state.columns.order] = values
    return out


def _local_curvature(problem, state):
    """Second derivatives of the loss at f, or the bound where steps are not watched."""
    columns = state.columns
    if problem.loss.quadratic or not columns.separable:
        return columns.curvature
    f = _table_order(state, state.f)
    second = problem.loss.second_derivative(f, problem.target)
    bend = problem.operator.squared_column_sums(problem.weight[:, None] * second)
    return np.clip(bend, _LEAST_BEND * columns.curvature, columns.curvature, out=bend)


def _visit(problem, state, block, gradient, following):
    """Move one block; the violation found there, and the gradient of the following."""
    columns, curvature = state.columns, state.curvature
    alpha, sparse = problem.alpha, problem.penalty == "l1"
    here = columns.coordinates(block)
    w = state.coef[here]
    new, violation = columns.minimise(block, gradient, w, curvature[here], alpha, sparse)
    delta = new - w
    if not delta.any():
        return violation, _advance(problem, state, None, following)
    watched = curvature is not columns.curvature
    gradients = _advance(problem, state, (block, delta), [block] * watched + following)
    if watched:
        far = _too_far(problem, gradients[0], w, new)
        if far.any():
            bound = columns.curvature[here]
            safe, _ = columns.minimise(block, gradient, w, bound, alpha, sparse)
            back = np.where(far, safe - new, 0.0)
            new = np.where(far, safe, new)
            gradients = _advance(problem, state, (block, back), following)
    state.coef[here] = new
    return violation, gradients


def _too_far(problem, gradient, w, new):
    """Steps that may have raised the objective, by the gradient where they end.

    The loss is convex: it rose by no more than the slope at the end times the step.
    """
    rise = gradient * (new - w)
    if problem.penalty == "l1":
        penalty = problem.alpha * (np.abs(new) - np.abs(w))
    else:
        penalty = 0.5 * problem.alpha * (np.square(new) - np.square(w))
    size = np.abs(rise) + np.abs(penalty)
    total = rise + penalty
    if problem.loss.coupled:  # the outputs of a row are one function
        total, size = total.sum(axis=1, keepdims=True), size.sum(axis=1, keepdims=True)
    return np.broadcast_to(total > _ROUNDING * size, w.shape)


def _advance(problem, state, move, wanted):
    """Move the responses along a block's change, then the gradients of the wanted blocks.

    One task a piece of rows does all of it.
    """
    columns = state.columns
    if move is not None:
        move = move[0], columns.change(*move)

    def work(number):
        piece = columns.pieces[number]
        f, slopes = state.f[piece], state.slopes[piece]
        if move is not None:
            rows = columns.add(number, *move, f)
            if rows is not None:
                slope = problem.loss.derivative(f[rows], state.target[piece][rows])
                slopes[rows] = state.weight[piece][rows, None] * slope
            else:
                # Little at a time: threads wait for each other over large new arrays.
                target, weight = state.target[piece], state.weight[piece]
                for part in slices(len(f), _ROWS_AT_ONCE):
                    slope = problem.loss.derivative(f[part], target[part])
                    np.multiply(weight[part, None], slope, out=slopes[part])
        return [columns.sums(number, block, slopes, k) for k, block in enumerate(wanted)]

    parts = tile_map(work, range(len(columns.pieces)), problem.n_jobs)
    return [_total(sums) for sums in zip(*parts, strict=True)]


def _total(arrays):
    total = arrays[0].copy()
    for array in arrays[1:]:
        total += array
    return total
