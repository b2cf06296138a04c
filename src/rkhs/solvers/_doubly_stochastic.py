"""Doubly stochastic gradients: batches of rows times blocks of random features."""

import time
from dataclasses import dataclass, field, replace

import numpy as np

from rkhs.compute import uniform
from rkhs.data import RowSource
from rkhs.solvers._base import Solver, State, is_integer, is_number
from rkhs.solvers._block_steps import STEPS, Batch

_ORDER_STREAM, _REUSE_STREAM, _GROWTH_STREAM = 1401, 1402, 1403
_SMALLEST_BATCH, _LARGEST_BATCH = 512, 65_536
_SMALLEST_OF_TABLE = 8192  # a table waits for nobody, and a larger batch is worth its time
_SMALLEST_BLOCK, _LARGEST_BLOCK = 64, 1024
_SMALLER_BATCHES = 32  # about as many before the largest
_ROWS_PER_FEATURE = 2
_SHORTEST_EPOCH = 8  # iterations
_AVERAGING = 8  # weight of iterate t in the average grows like t^8: the tail counts
_RECENT = 2  # iterations that the share of noise in a slope is averaged over
_PROBED = 64  # rows that the variance of features is estimated from


@dataclass
class StreamState(State):
    """Coefficients of cosines and sines, and the rows that no batch has taken yet.

    Attributes
    ----------
    coef, iterate : arrays of shape (frequencies, 2, outputs)
        Average of the iterates, and the last one divided by `scale`.
    edges : array of int
        Block k has the frequencies ``edges[k]`` to ``edges[k + 1]``.
    drift : array of shape (blocks, outputs)
        Step times mean derivative, summed for each block and divided by `scale`.
    waiting : tuple of arrays, or None
        Rows, targets and weights.
    """

    iterate: np.ndarray = field(default_factory=lambda: np.empty(0))
    edges: np.ndarray = field(default_factory=lambda: np.zeros(1, np.intp))
    drift: np.ndarray = field(default_factory=lambda: np.empty(0))
    scale: float = 1.0
    count: int = 0  # iterations
    reused: int = 0
    rows_seen: int = 0
    weight_seen: float = 0.0
    epoch: int = 0
    loss_sum: float = 0.0  # of the rows since the epoch began, each before its own step
    loss_rows: int = 0
    first_length: float = 1.0  # of the first step, from the curvature
    largest_slope: float = 0.0
    spread: float = -1.0  # variance of a feature's product around the kernel
    agreement: float = 1.0  # share of recent steps' slopes that is not noise of their rows
    waiting: tuple | None = None

    @property
    def n_frequencies(self) -> int:
        return len(self.iterate)

    @property
    def mean_loss(self) -> float:
        """Of the rows of this epoch or call, each before its own step."""
        return self.loss_sum / self.loss_rows if self.loss_rows else self.objective

    @property
    def total_rows(self) -> int:
        return self.rows_seen + (0 if self.waiting is None else len(self.waiting[0]))

    @property
    def total_weight(self) -> float:
        return self.weight_seen + (0.0 if self.waiting is None else float(self.waiting[2].sum()))

    def with_outputs(self, outputs: np.ndarray, target) -> "StreamState":
        """The state with other outputs, combinations of those it has, and targets to match.

        `outputs` has the shape (old outputs, new outputs); `target` is that of waiting rows.
        """
        waiting = self.waiting and (self.waiting[0], target, self.waiting[2])
        return replace(
            self,
            coef=self.coef @ outputs,
            iterate=self.iterate @ outputs,
            drift=self.drift @ outputs,
            waiting=waiting,
        )


class DSG(Solver):
    r"""Doubly stochastic gradients: a model that grows with the stream. [dai2014]_

    Each iteration takes a batch of rows and a new block of random features of the kernel.
    Of the features only seed and coefficients are kept. Every older coefficient shrinks by
    :math:`1 - \gamma\alpha`; the new ones are

    .. math:: -\gamma\, P\, \frac1B \sum_i \ell'(f(x_i), y_i)\, \phi(x_i) .

    With ``step="gradient"``, P is the identity: Algorithm 1 of the paper, which reaches the
    minimum over the kernel's whole space at the rate 1/t. With ``step="newton"``, P is the
    inverse of the block's covariance on the batch, weighted by the loss's curvature and damped
    by the number of features per row: what the paper's experiments used. It comes close in
    tens of iterations where the other takes many thousands. Every block pays for its norm as
    often as there are blocks, and when one joins, the others shrink, by at most the share of
    features that it is: so the objective is that of the kernel, however many blocks there are.
    For a loss with a kink it ends about one percent above the minimum, where no block alone leads
    further down.

    Parameters
    ----------
    tol : float, default=1e-3
        Stop when the training loss changes by less than this share over an epoch. It is that
        of each row before the row's own step: what the history calls the objective.
    step : {"newton", "gradient"}, default="newton"
    step_size : "auto" or float, default="auto"
        For "newton", a factor of the step (1 by default). For "gradient", theta of the step
        sizes theta / t; "auto" is 2 / alpha with a late start, so that the first step is what
        the batch's curvature allows.
    batch_size : "auto" or int, default="auto"
        Rows of an iteration; "auto" is an eighth of the rows seen so far, up to 65,536, and at
        least 512 of a stream or 8,192 (or all) of a table that `fit` shuffles.
    block_size : "auto" or int, default="auto"
        Features of a block, an even number; "auto" is half of the batch, from 64 to 1,024.
    max_features : int, optional
        Size at which the model stops growing; from then on old blocks are updated, at random.
    shuffle : bool, default=True
        Whether `fit` takes the rows in random order. `partial_fit` takes them as they come.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs import KernelRegressor
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> y = np.sin(2 * X[:, 0]) + X[:, 1]
    >>> model = KernelRegressor(solver="dsg", random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    needs_features = True
    needs_dense = True
    grows_features = True
    streams = True
    default_features = "random_fourier"
    max_epochs = 10
    seeks_tolerance = False

    def __init__(
        self,
        tol=1e-3,
        step="newton",
        step_size="auto",
        batch_size="auto",
        block_size="auto",
        max_features=None,
        shuffle=True,
    ):
        self.tol = tol
        # The name of the rule hides the method of the same name, which the driver takes
        # from the class.
        self.step = step  # type: ignore[method-assign]
        self.step_size = step_size
        self.batch_size = batch_size
        self.block_size = block_size
        self.max_features = max_features
        self.shuffle = shuffle

    def check(self, loss, features, alpha, penalty="l2"):
        super().check(loss, features, alpha, penalty)
        if self.step not in STEPS:
            raise ValueError(
                f"step must be one of {', '.join(map(repr, STEPS))}; got {self.step!r}."
            )
        if not (self.step_size == "auto" or (is_number(self.step_size) and self.step_size > 0)):
            raise ValueError(f'step_size must be "auto" or positive, got {self.step_size!r}.')
        for name, least in (("batch_size", 1), ("block_size", 2), ("max_features", 2)):
            value = getattr(self, name)
            default = None if name == "max_features" else "auto"
            if value != default and not (is_integer(value) and value >= least):
                raise ValueError(
                    f"{name} must be {default!r} or a whole number from {least}, got {value!r}."
                )

    def memory(self, operator, n_outputs, has_features, budget):
        n_rows, itemsize = operator.shape[0], operator.dtype.itemsize
        # Batches grow with the rows seen, and what would be less than half of one joins another.
        largest = _LARGEST_BATCH if self.batch_size == "auto" else self.batch_size
        rows = min(n_rows, largest * 3 // 2)
        block = min(_LARGEST_BLOCK, rows) if self.block_size == "auto" else self.block_size
        n_blocks = self.max_epochs * max(_SHORTEST_EPOCH, -(-n_rows // largest))
        if self.batch_size == "auto":
            n_blocks += _SMALLER_BATCHES
        n_features = n_blocks * block
        if self.max_features is not None:
            n_features = min(n_features, self.max_features + block)
        # A block and its weighted copy, two copies of the rows, and vectors of the outputs.
        entries = 2 * itemsize * block + 2 * 8 * operator.entry_work + 8 * 10 * n_outputs
        return 8 * 5 * n_features * n_outputs + rows * entries + 8 * 4 * block**2

    def init(self, problem):
        n_outputs = problem.target.shape[1]
        empty = np.zeros((0, 2, n_outputs))
        return StreamState(empty, iterate=empty, drift=np.zeros((0, n_outputs)))

    def step(self, problem, state):
        """One epoch: every row once, or so many times that there are eight iterations."""
        state = replace(state, loss_sum=0.0, loss_rows=0)
        first, last, n_rows = state.count, state.objective, len(problem.source)
        while True:
            order = None
            if self.shuffle:
                keys = uniform(problem.seed, _ORDER_STREAM, state.epoch, (n_rows,))
                order = np.argsort(keys, kind="stable")
            state = self.absorb(problem, state, order, state.deadline)
            state = self._flushed(problem, state, order)
            state.epoch += 1
            enough = not self.shuffle or state.count - first >= _SHORTEST_EPOCH
            if enough or time.perf_counter() >= state.deadline:
                break
        state.objective = state.mean_loss
        change = abs(last - state.objective)
        state.converged = bool(change <= self.tol * abs(state.objective))
        return state

    def finish(self, problem, state):
        state = self._flushed(problem, state)
        pairs = state.coef
        if not len(pairs):
            pairs = np.zeros((1, 2, pairs.shape[2]))
        features = problem.features.sized(2 * len(pairs))
        coef = features.from_pairs(pairs).astype(problem.operator.dtype)
        return features.expansion(coef)

    def absorb(self, problem, state, order=None, deadline=np.inf) -> StreamState:
        """Take the rows of a problem as the next of the stream.

        Rows that do not fill a batch wait in the state, so that the same stream gives the
        same model however it was cut. With an order, they are a table that is gone through in
        that order, and not part of something larger. No iteration begins after the deadline.
        """
        state = replace(state)
        n_rows, position = len(problem.source), 0
        while True:
            waiting = 0 if state.waiting is None else len(state.waiting[0])
            size = self._batch_rows(state.rows_seen, order is not None)
            stop = position + max(0, size - waiting)
            if stop > n_rows:
                break
            if order is not None and n_rows - stop < size // 2:
                stop = n_rows  # too few for a batch of their own
            state = self._joined(problem, state, position, stop, order)
            state = self._iterate(problem, state, order)
            position = stop
            if time.perf_counter() >= deadline:
                return state
        state.objective = state.mean_loss
        return self._joined(problem, state, position, n_rows, order)

    def _batch_rows(self, rows_seen, is_table):
        if self.batch_size != "auto":
            return self.batch_size
        least = _SMALLEST_OF_TABLE if is_table else _SMALLEST_BATCH
        return int(np.clip(rows_seen // 8, least, _LARGEST_BATCH))

    def _joined(self, problem, state, start, stop, order):
        """The state with some more rows waiting."""
        rows = slice(start, stop) if order is None else order[start:stop]
        if stop <= start:
            return state
        waiting = [(problem.source.floats(rows), problem.target[rows], problem.weight[rows])]
        if state.waiting is not None:
            waiting.insert(0, state.waiting)
        return replace(state, waiting=tuple(map(np.concatenate, zip(*waiting, strict=True))))

    def _flushed(self, problem, state, order=None):
        return replace(state) if state.waiting is None else self._iterate(problem, state, order)

    def _iterate(self, problem, state, order=None):
        """One step with the rows that wait."""
        X, target, weight = state.waiting
        state = replace(
            state,
            waiting=None,
            count=state.count + 1,
            rows_seen=state.rows_seen + len(X),
            weight_seen=state.weight_seen + float(weight.sum()),
        )
        share = weight * (state.rows_seen / state.weight_seen)
        population = np.inf if order is None else len(order)
        batch = Batch(problem, RowSource(X), target, share, population, state.count)
        batch.evaluate(state.iterate, state.scale)
        losses = problem.loss.elementwise(batch.f, target).sum(axis=1)
        state.loss_sum += float(share @ losses)
        state.loss_rows += len(X)
        rule = STEPS[str(self.step)]
        if state.count == 1:
            state.first_length = rule.first_length(batch, self._block_width(len(X)))
        length = rule.length(self.step_size, problem.alpha, state.first_length, state.count)
        block, length = self._choose(problem, state, batch, length)
        is_old = block < len(state.edges) - 1
        state = self._grown(state, block, batch)
        frequencies = slice(state.edges[block], state.edges[block + 1])
        if rule.penalised and block and not is_old:
            # The others make room, as far as the objective falls: at most until each feature
            # carries the same share of the function.
            share = 1.0 - frequencies.start / frequencies.stop
            kept = 1.0 - batch.shrink(state.scale * state.iterate, share)
            state.scale *= kept
            batch.move_to(kept * batch.f)
        automatic = self.step_size == "auto"
        pairs = state.scale * state.iterate
        direction, length = batch.step(pairs, frequencies, rule, length, automatic)
        state.agreement += (batch.agreement - state.agreement) / _RECENT
        if not rule.penalised:
            state.scale *= max(0.0, 1.0 - length * problem.alpha)
        return self._moved(state, block, frequencies, direction, length, batch)

    def _choose(self, problem, state, batch, length):
        """Block to update (the number of blocks for a new one), and the length of the step."""
        n_blocks = len(state.edges) - 1
        if self._is_full(state) or self._reuses(problem, state):
            u = uniform(problem.seed, _REUSE_STREAM, state.count, (1,))[0]
            # Any old feature with the same probability: large blocks more often.
            place = int(u * state.n_frequencies)
            return int(np.searchsorted(state.edges, place, "right")) - 1, length
        return n_blocks, length

    def _is_full(self, state):
        if self.max_features is None or not state.n_frequencies:
            return False
        return state.n_frequencies >= self.max_features // 2

    def _reuses(self, problem, state):
        """Whether the next block is an old one, drawn at random."""
        return False

    def _block_width(self, n_rows):
        """Frequencies of a new block."""
        if self.block_size != "auto":
            return max(1, self.block_size // 2)
        features = np.clip(n_rows // _ROWS_PER_FEATURE, _SMALLEST_BLOCK, _LARGEST_BLOCK)
        return int(features) // 2

    def _grown(self, state, block, batch):
        """The state with room for one more block, if that is the one to update."""
        if block < len(state.edges) - 1:
            state.reused += 1
            return state
        width = self._block_width(len(batch.f))
        if self.max_features is not None:
            width = max(1, min(width, self.max_features // 2 - state.n_frequencies))
        room = np.zeros((width, 2, state.coef.shape[2]))
        state.coef = np.concatenate([state.coef, room])
        state.iterate = np.concatenate([state.iterate, room])
        state.edges = np.append(state.edges, state.edges[-1] + width)
        state.drift = np.concatenate([state.drift, np.zeros((1, state.drift.shape[1]))])
        return state

    def _moved(self, state, block, frequencies, direction, length, batch):
        if state.scale < 1e-100:
            state.iterate, state.drift = state.scale * state.iterate, state.scale * state.drift
            state.scale = 1.0
        else:
            state.iterate, state.drift = state.iterate.copy(), state.drift.copy()
        state.iterate[frequencies] -= (length / state.scale) * direction
        state.drift[block] -= (length / state.scale) * batch.mean_slope
        recent = (_AVERAGING + 1.0) / (state.count + _AVERAGING)
        state.coef = (1.0 - recent) * state.coef + (recent * state.scale) * state.iterate
        return state


class UDSG(DSG):
    """Doubly stochastic gradients that return to old features now and then. [li2016]_

    After `generate` iterations with new blocks come `reuse` with old ones, drawn at random:
    a smaller model for the same number of iterations.

    Parameters
    ----------
    generate, reuse : int, default=1
    tol, step, step_size, batch_size, block_size, max_features, shuffle
        As in `DSG`.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs import KernelRegressor
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> y = np.sin(2 * X[:, 0]) + X[:, 1]
    >>> model = KernelRegressor(solver="udsg", random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    def __init__(
        self,
        generate=1,
        reuse=1,
        tol=1e-3,
        step="newton",
        step_size="auto",
        batch_size="auto",
        block_size="auto",
        max_features=None,
        shuffle=True,
    ):
        super().__init__(tol, step, step_size, batch_size, block_size, max_features, shuffle)
        self.generate = generate
        self.reuse = reuse

    def check(self, loss, features, alpha, penalty="l2"):
        super().check(loss, features, alpha, penalty)
        if not (is_integer(self.generate) and self.generate >= 1):
            raise ValueError(f"generate must be a whole number from 1, got {self.generate!r}.")
        if not (is_integer(self.reuse) and self.reuse >= 0):
            raise ValueError(f"reuse must be a whole number from 0, got {self.reuse!r}.")

    def _reuses(self, problem, state):
        return (state.count - 1) % (self.generate + self.reuse) >= self.generate


class CDSG(DSG):
    r"""Doubly stochastic gradients that check whether an old block serves as well. [li2016]_

    For each old block k with accumulated steps :math:`\beta_k`, the longest step
    :math:`\eta` with

    .. math:: 2\|\beta_k - \eta \bar g\|^2 + 2 \eta^2 M^2 \sigma^2 / B^2
              \le \|\beta_k\|^2 + \gamma^2 \|\bar g\|^2

    keeps the error's bound as low as a new block would; :math:`\bar g` is the batch's mean
    derivative, M its largest, and :math:`\sigma^2` the features' variance. If the longest of
    all blocks is longer than :math:`\gamma`, that block is updated with it; else a new one is
    drawn. M and :math:`\sigma^2` are estimated from the rows.

    With ``step="newton"``, the steps do not shrink, and this bound does not see what they make of
    a batch's noise. So of the steps that it leaves to new blocks, only the share of the recent
    slopes that parts of the batch agree on draws one, though at least :math:`t^{-1/2}`; the
    others return to an old block at random.

    Parameters
    ----------
    tol, step, step_size, batch_size, block_size, max_features, shuffle
        As in `DSG`.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs import KernelRegressor
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> y = np.sin(2 * X[:, 0]) + X[:, 1]
    >>> model = KernelRegressor(solver="cdsg", random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    def _reuses(self, problem, state):
        if not STEPS[str(self.step)].penalised:
            return False
        # What a new block makes of noise stays: later blocks correct the function, but the norms
        # of both count. A block that is visited again forgets it.
        grows = max(state.count**-0.5, state.agreement)
        return bool(uniform(problem.seed, _GROWTH_STREAM, state.count, (1,))[0] >= grows)

    def _choose(self, problem, state, batch, length):
        slopes = np.sqrt(np.einsum("ij,ij->i", batch.slope, batch.slope).max())
        state.largest_slope = max(state.largest_slope, float(slopes))
        if state.spread < 0:
            state.spread = batch.feature_variance(self._block_width(len(batch.f)), _PROBED)
        block, length = super()._choose(problem, state, batch, length)
        widths = np.diff(state.edges)
        if not len(widths):
            return block, length
        noise = state.largest_slope**2 * state.spread / len(batch.f) ** 2
        lengths = longest_steps(state.scale * state.drift, batch.mean_slope, length, noise)
        # An early block that was cut small can't stand in for one of today's size.
        lengths = np.where(2 * widths >= self._block_width(len(batch.f)), lengths, 0.0)
        lengths = np.minimum(lengths, STEPS[str(self.step)].longest(length, state.count))
        best = int(np.argmax(lengths))
        return (best, float(lengths[best])) if lengths[best] > length else (block, length)


def longest_steps(drift, slope, length, noise) -> np.ndarray:
    """For each block the longest step that the rule of `CDSG` allows; 0 where it allows none."""
    square = float(slope @ slope)
    lead = 2.0 * (square + noise)
    along = drift @ slope
    rest = np.einsum("ij,ij->i", drift, drift) - length**2 * square
    inside = 4.0 * along**2 - lead * rest
    steps = (2.0 * along + np.sqrt(np.maximum(inside, 0.0))) / lead if lead > 0 else 0.0 * along
    return np.where(inside >= 0, steps, 0.0)
