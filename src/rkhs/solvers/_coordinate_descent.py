"""Coordinate descent on features, with a penalty that makes models sparse."""

import numbers
from dataclasses import dataclass, field

import numpy as np

from rkhs.compute import fill, single_threaded_blas, tile_map
from rkhs.losses import LOSSES
from rkhs.solvers import _support
from rkhs.solvers._base import Solver, State
from rkhs.solvers._columns import Columns, columns_bytes, columns_of
from rkhs.solvers._responses import objective_at, table_order, trusted_bends

_SCHEMES = ("grid", "random")
_ROUND = 4  # epochs, of which only the first visits blocks at rest
_BACKTRACKS = 20
_ROUNDING = 1e-13


@dataclass
class _CoordinateState(State):
    """Arrays of rows are in the order that the columns ask for."""

    columns: Columns = field(default_factory=Columns)
    f: np.ndarray = field(default_factory=lambda: np.empty(0))
    slopes: np.ndarray = field(default_factory=lambda: np.empty(0))
    bends: np.ndarray = field(default_factory=lambda: np.empty(0))  # second derivatives
    target: np.ndarray = field(default_factory=lambda: np.empty(0))
    weight: np.ndarray = field(default_factory=lambda: np.empty(0))
    curvature: np.ndarray = field(default_factory=lambda: np.empty(0))
    before: np.ndarray = field(default_factory=lambda: np.empty(0))  # an epoch: such coefficients
    violations: np.ndarray = field(default_factory=lambda: np.empty(0))  # block by block
    blocks: list = field(default_factory=list)  # of this round
    moment: tuple = (np.empty(0, np.intp), None)  # of some columns of Z, and which
    scale: float = 1.0
    largest: float = np.inf  # violation met in the round's first epoch
    round: int = 0
    epoch: int = 0


class CoordinateDescent(Solver):
    r"""Minimise over a block of coefficients at a time, with ``penalty="l1"`` or "l2".

    Minimises :math:`\sum_i s_i \ell(f(x_i), t_i) + \alpha \sum_j |w_j|` ("l1"), whose
    solutions have many coefficients that are exactly zero, or
    :math:`\ldots + \frac{\alpha}{2} \sum_j w_j^2` ("l2"), over :math:`f = Z w`.

    On random binning a block is a grid. Its bins share no row, so that each is minimised
    over alone, all of them at once and without damping. Losses other than the squared error
    are replaced by their second-order expansion, anew in each epoch, and an epoch that would
    raise the objective is shortened. On dense features a block is a run of columns.

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
    the first of them only. The coefficients that are not zero end the round: correlated
    columns, which coordinate descent is slow at, are settled by Newton steps that hold signs
    [wen2010]_. With random binning and few enough of them the steps are exact, and go on until
    the signs are those of the optimum on this support; else there is one, by conjugate
    gradients, taken if it lowers the objective.

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
        if not features.by_columns:
            raise ValueError(
                f"CoordinateDescent takes features one by one, and {features!r} has them side by "
                'side. Use one of its maps, or solver="conjugate_gradient" or "newton_cg".'
            )

    def memory(self, operator, n_outputs, has_features, budget):
        vectors = super().memory(operator, n_outputs, has_features, budget)
        if self.scheme == "grid" or operator.is_sparse:
            vectors *= 2
        own = vectors + columns_bytes(operator, self.scheme, self.batch)
        if self.scheme == "grid" and operator.is_sparse:
            own += _support.moment_bytes(operator.shape[1], max(budget - own, 0))
        return own

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
        state = _CoordinateState(
            coef,
            columns=columns,
            f=f,
            target=target,
            weight=weight,
            curvature=columns.curvature,
            violations=np.full(columns.n_fixed, np.inf),
            scale=float(scale),
        )
        _measure(problem, state)
        return state

    def step(self, problem, state):
        tolerance = self.tol * state.scale
        columns = state.columns
        complete = not state.blocks
        if complete:
            state.blocks = columns.blocks(problem.seed, state.epoch)
            state.round = 0
        with single_threaded_blas:
            largest = (_sweep if columns.whole_epochs else _epoch)(problem, state)
            if complete:
                state.largest = largest
            state.converged = complete and largest <= tolerance
            state.epoch += 1
            if not columns.n_fixed:
                state.blocks = []
                return state
            # Blocks at rest leave after a round's first epoch.
            state.blocks = [block for block in state.blocks if state.violations[block] > tolerance]
            state.round += 1
            if not state.converged and (state.round == _ROUND or not state.blocks):
                state.blocks = []
                new = _support.improved(problem, state, tolerance)
                if new is not None:
                    state.coef, state.f = new
                    _measure(problem, state)
        return state


def _measure(problem, state):
    """Slopes and objective at the state's responses."""
    if state.slopes.shape != state.f.shape:
        state.slopes = np.empty_like(state.f)
    state.objective = objective_at(problem, state, state.coef, state.f, state.slopes)


def _sweep(problem, state):
    """Visit this round's blocks on the second-order expansion; the largest violation met."""
    columns, loss = state.columns, problem.loss
    if state.round == 0:
        _expand(problem, state)
    if state.before.shape != state.coef.shape:
        state.before = np.empty_like(state.coef)  # memory to be used again: there may be many
    fill(state.before, state.coef, problem.n_jobs)
    f, highest = state.f, state.objective + _ROUNDING * abs(state.objective)
    shift = np.zeros_like(f)
    violations = columns.sweep(
        state.blocks,
        state.slopes,
        state.bends,
        shift,
        state.coef,
        state.curvature,
        problem.alpha,
        problem.penalty == "l1",
        problem.n_jobs,
    )
    if columns.n_fixed:
        state.violations[state.blocks] = violations
    state.f = f + shift
    _measure(problem, state)
    if not loss.quadratic and not state.objective <= highest:
        _shorten(problem, state, f, shift, highest)
    return float(violations.max())


def _shorten(problem, state, f, shift, highest):
    """Go back along an epoch's way, from the responses before it, until the objective is lower."""
    size, delta = 1.0, state.coef - state.before
    while size > 0.0 and not state.objective <= highest:
        size = 0.5 * size if size > 0.5**_BACKTRACKS else 0.0
        state.coef, state.f = state.before + size * delta, f + size * shift
        _measure(problem, state)


def _expand(problem, state):
    """Second derivatives of the loss at each row, and of their sums over each bin."""
    if problem.loss.quadratic:
        state.bends = state.weight[:, None]
        return
    state.bends = trusted_bends(problem, state)
    bends = table_order(state, state.bends)
    # Memory that is new to the system costs as much as the sums.
    out = state.curvature if state.curvature.shape[1] == bends.shape[1] else None
    state.curvature = problem.operator.squared_column_sums(bends, out)
    if state.columns.damping != 1.0:
        state.curvature *= state.columns.damping


def _epoch(problem, state):
    """Visit this round's blocks once; the largest violation met."""
    largest = 0.0
    gradient = _advance(problem, state, None, *state.blocks[:1])
    for position, block in enumerate(state.blocks):
        following = state.blocks[position + 1 : position + 2]
        violation, gradient = _visit(problem, state, block, gradient, following)
        if state.columns.n_fixed:
            state.violations[block] = violation
        largest = max(largest, violation)
    _measure(problem, state)
    return largest


def _visit(problem, state, block, gradient, following):
    """Move one block; the violation found there, and the gradient of the following."""
    columns = state.columns
    here = columns.coordinates(block)
    w = state.coef[here]
    new, violation = columns.minimise(
        block, gradient, w, state.curvature[here], problem.alpha, problem.penalty == "l1"
    )
    delta = new - w
    state.coef[here] = new
    return violation, _advance(problem, state, (block, delta) if delta.any() else None, *following)


def _advance(problem, state, move, wanted=None):
    """Move the responses along a block's change, then the gradient of the wanted block.

    One task a piece of rows does all of it.
    """
    columns = state.columns

    def work(number):
        piece = columns.pieces[number]
        f, slopes = state.f[piece], state.slopes[piece]
        if move is not None:
            rows = columns.add(number, *move, f)
            rows = slice(None) if rows is None else rows
            slope = problem.loss.derivative(f[rows], state.target[piece][rows])
            slopes[rows] = state.weight[piece][rows, None] * slope
        return None if wanted is None else columns.sums(number, wanted, slopes)

    parts = list(tile_map(work, range(len(columns.pieces)), problem.n_jobs))
    return None if wanted is None else _total(parts)


def _total(arrays):
    total = arrays[0].copy()
    for array in arrays[1:]:
        total += array
    return total
