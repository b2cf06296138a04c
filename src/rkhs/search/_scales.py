"""Length scales that minimise the leave-one-out error on a sample of rows."""

import time
from functools import partial
from typing import NamedTuple

import numpy as np

from rkhs.compute import slices, tile_map
from rkhs.kernels._base import StationaryKernel
from rkhs.search._leave_one_out import LeaveOneOut

STEPS, SAMPLES, SAMPLE_ROWS = 40, 2, 600  # of Adam, and the samples that a step averages over
_EARLY_STEPS = 20  # which take half the rows: far from the end, rough slopes will do
_LAST_STEPS = 20  # with the columns that are left
_FIRST_RATE, _LAST_RATE, _DECAY, _SQUARED_DECAY = 0.15, 0.05, 0.9, 0.99
_NOISE = 0.1  # to start from, in variances of the target
_WIDE = 150  # columns, above which few are tried alone
_PAIRS = 2000  # of rows, that contributions are means over
_NEGLIGIBLE = 0.01  # of the metric, that columns without effect may make up together
_LITTLE = 0.05  # of the metric: a column that counts for less is judged by the error's slope
_FEWER = 0.75  # times the columns, one trial after another
_GAIN, _TIE = 0.99, 1.001  # times the error without columns that do harm, or nothing
LEARNT = 0.9  # of the variance: an error above which no column is left out
_HOPELESS = 1.2  # times the error, after which still fewer columns are not tried
_LOCAL_STEPS, _LAST_LOCAL_STEPS, _LOCAL_ROWS = 80, 40, 400  # the same among near rows
_JUDGED = 3  # one in so many of them counts


class Scales(NamedTuple):
    """What was learnt.

    Attributes
    ----------
    length_scale : array of shape (columns,)
        Infinite for columns that do harm or make no difference.
    noise : float
        The ridge of the kernel matrix that goes with it.
    error : float
        Leave-one-out error, as a share of the target's variance.
    contribution : array of shape (columns,)
        How much the kernel of two rows falls with their distance in each column (the root of
        the mean square); of columns that make no difference as well.
    """

    length_scale: np.ndarray
    noise: float
    error: float
    contribution: np.ndarray


def learn_scales(
    kernel: StationaryKernel,
    X,
    target,
    weight=None,
    categorical=None,
    n_jobs=None,
    deadline: float = np.inf,
) -> Scales:
    """A length scale for each column, by the gradient of the leave-one-out error.

    Scales are learnt by Adam [kingma2015]_ on their logarithms and that of the noise, with other
    rows at each step. Of many columns the eighth that counts most then competes alone, as long as
    the error falls: among a thousand columns of noise the first gradients find what matters, and
    no more. Then the columns that count least, and those that the error's slopes say are worth
    least, are left out if the error of the same rows is lower without them, the others' scales
    learnt on, and columns left out once more: what a column of noise adds to distances is little,
    but there may be many. At last those go that make no difference. The cost does not depend on
    the table's size, and is about linear in its columns.

    Parameters
    ----------
    kernel : StationaryKernel
        Its form; scales start from ``length_scale="auto"``.
    X : array of shape (rows, columns)
        Different rows, in random order.
    target : array of shape (rows, outputs)
    weight : array of shape (rows,), optional
    categorical : array of bool of shape (columns,), optional
    n_jobs : int, optional
        Threads; the result does not depend on it.
    deadline : float, optional
        Time of `time.perf_counter` after which no further step begins.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.kernels import Laplacian
    >>> from rkhs.search import learn_scales
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> found = learn_scales(Laplacian(), X, np.sin(3 * X[:, :1]))
    >>> first, second, third = found.length_scale
    >>> bool(min(second, third) > 10 * first)  # columns of noise
    True
    """
    X = np.asarray(X, np.float64)
    weight = np.ones(len(X)) if weight is None else np.asarray(weight)
    categorical = np.zeros(X.shape[1], bool) if categorical is None else categorical
    target, variance = _centred(target, weight)
    start = _plain_scales(kernel, X, weight, categorical)
    used = np.isfinite(start)
    nothing = Scales(start, _NOISE, 1.0, np.zeros(X.shape[1]))
    if not (variance > 0 and used.any() and len(X) > 2):
        return nothing
    rows, unit, begin = _in_units(X, start, categorical, used)
    described = partial(_described, unit, used, kernel, X, weight, categorical)
    samples = _sampler(kernel, rows, target, weight, categorical[used], n_jobs)

    def with_fewer(parameters, slope):
        contribution = described(parameters)[1][used]
        values = contribution, _worth(contribution, slope)
        return _with_fewer(samples, parameters, values, deadline)

    def fewer(columns):
        """Where to start with some of the columns."""
        # With fewer columns each bears a shorter scale: distances stay as they are.
        count = np.count_nonzero(columns)
        trial = begin + np.log(count / len(unit)) / kernel.metric_power
        trial[:-1][~columns], trial[-1] = np.inf, begin[-1]
        return trial

    trial, found, error, slope = begin, begin, np.inf, np.zeros_like(begin)
    while True:
        parameters, lower, slopes = _learn(samples, trial, STEPS, deadline, _EARLY_STEPS)
        if not lower < error:
            break
        found, error, slope = parameters, lower, slopes
        count = int(np.isfinite(found[:-1]).sum())
        if count <= _WIDE or time.perf_counter() > deadline:
            break
        count = max(_WIDE // 2, count // 8)
        order = np.argsort(-described(found)[1][used], kind="stable")
        trial = fewer(np.isin(np.arange(len(unit)), order[:count]))
    if not np.isfinite(error):
        return nothing
    found = with_fewer(found, slope)
    longer, lower, slope = _learn(samples, found, _LAST_STEPS, deadline)
    if np.isfinite(lower) and time.perf_counter() < deadline:
        found, error = with_fewer(longer, slope), lower
    scales, contribution = described(found)
    idle = _negligible(contribution[used])
    if _are_idle(samples, found, idle, deadline):
        scales[np.flatnonzero(used)[idle]] = np.inf
    return Scales(scales, float(np.exp(found[-1])), error, contribution)


def refine_scales(
    kernel: StationaryKernel,
    X,
    target,
    weight,
    categorical,
    n_jobs=None,
    deadline: float = np.inf,
) -> np.ndarray:
    """Length scales for details, by leave-one-out errors among rows that are near each other.

    Some rows of all say what matters at their density, which is that of a small table. A row's
    nearest ones, few as they are, are as dense as the whole table; of them the nearest third is
    judged, for the others lack neighbours.

    Parameters
    ----------
    kernel : StationaryKernel
        With the length scales to start from, one a column.
    X, target, weight, categorical, n_jobs, deadline
        As for `learn_scales`, none of the arrays optional.

    Returns
    -------
    length_scale : array of shape (columns,)
        Those of the kernel if there are too few rows to learn from, or nothing to learn.
    """
    X, start = np.asarray(X, np.float64), np.asarray(kernel.length_scale, np.float64)
    used = np.isfinite(start)
    variance = float(np.average((target**2).sum(axis=1), weights=weight))
    if not (variance > 0 and used.any() and len(X) > _LOCAL_ROWS):
        return start
    rows, unit, begin = _in_units(X, start, categorical, used)
    described = partial(_described, unit, used, kernel, X, weight, categorical)

    def neighbourhoods(columns, n_early=0):
        data = rows[:, columns], target / np.sqrt(variance), weight, categorical[used][columns]
        return _Neighbourhoods(kernel, *data, _LOCAL_ROWS, n_jobs, n_early)

    found, error, _ = _learn(neighbourhoods, begin, _LOCAL_STEPS, deadline)
    if not np.isfinite(error):
        return start
    found = _with_fewer(neighbourhoods, found, [described(found)[1][used]], deadline)
    longer, error, _ = _learn(neighbourhoods, found, _LAST_LOCAL_STEPS, deadline)
    if np.isfinite(error) and time.perf_counter() < deadline:
        found = longer
    scales, contribution = described(found)
    scales[_negligible(contribution)] = np.inf
    return scales


def _centred(target, weight):
    """The target about its mean in deviations, and its variance."""
    target = target - np.average(target, axis=0, weights=weight)
    variance = float(np.average((target**2).sum(axis=1), weights=weight))
    return target / np.sqrt(variance or 1.0), variance


def _plain_scales(kernel, X, weight, categorical):
    return type(kernel)(length_scale="auto").resolve(X, weight, categorical).length_scale


def _sampler(kernel, rows, target, weight, categorical, n_jobs):
    """What makes samples of some of the columns."""

    def samples(columns, n_early=0):
        data = rows[:, columns], target, weight, categorical[columns]
        return _Samples(kernel, *data, SAMPLE_ROWS, n_jobs, n_early)

    return samples


def _in_units(X, start, categorical, used):
    """Used columns in units of the first scales, float32; these; and parameters to start from."""
    shift = np.where(categorical, 0.0, np.median(X, axis=0))[used]
    unit = np.where(categorical, 1.0, start)[used]
    rows = ((X[:, used] - shift) / unit).astype(np.float32)
    return rows, unit, np.append(np.log(start[used] / unit), np.log(_NOISE))


def _learn(samples, parameters, n_steps, deadline, n_early=0):
    """Parameters after some steps of Adam, error and slope there; infinite scales stay so."""
    used, found, slope = np.isfinite(parameters), parameters.copy(), np.zeros_like(parameters)
    losses = samples(used[:-1], n_early)
    found[used], error, slope[used] = _adam(losses, parameters[used], n_steps, deadline)
    return found, error, slope


def _with_fewer(samples, parameters, values, deadline):
    """Infinite scales for columns of the least value, as long as the error falls.

    There may be several kinds of values, which decide one after the other. Few rows bear fewer
    columns than many do: the error must fall by more than a little. Where little was learnt, any
    column is better left out of so few rows, and no cut is made.
    """
    used, found = np.isfinite(parameters), parameters.copy()
    if used[:-1].sum() < 2 or time.perf_counter() > deadline:
        return found
    losses, start = samples(used[:-1]), parameters[used]
    here, lowest = start, losses.error(start, start)
    if not lowest < LEARNT:
        return found
    for value in values:
        order = np.argsort(-value[used[:-1]], kind="stable")
        order = order[np.isfinite(here[order])]
        count = len(order)
        while count > 1 and time.perf_counter() < deadline:
            count = min(count - 1, int(_FEWER * count))
            trial = np.full_like(start, np.inf)
            kept = np.append(order[:count], -1)  # and the noise
            trial[kept] = start[kept]
            error = losses.error(trial, start)
            if error < _GAIN * lowest:
                here, lowest = trial, error
            elif not error < _HOPELESS * lowest:
                break
    found[used] = here
    return found


def do_good(
    kernel: StationaryKernel,
    X,
    target,
    weight,
    categorical,
    found: Scales,
    columns,
    n_jobs=None,
    deadline: float = np.inf,
) -> bool:
    """Whether the error falls by more than chance if some columns come to those of `found`.

    More scales fit any rows better: the columns must do better than themselves in another order.
    They have infinite scales in `found`; the other arguments are those of `learn_scales`.
    """
    if time.perf_counter() > deadline:
        return False
    X = np.asarray(X, np.float64)
    target, _ = _centred(target, weight)
    start = np.where(columns, _plain_scales(kernel, X, weight, categorical), found.length_scale)
    used = np.isfinite(start)
    if not used[columns].any():
        return False
    rows, _, begin = _in_units(X, start, categorical, used)
    begin[-1] = np.log(found.noise)

    def error(rows):
        samples = _sampler(kernel, rows, target, weight, categorical[used], n_jobs)
        return _learn(samples, begin, _LAST_STEPS, deadline)[1]

    with_them = error(rows)
    if not with_them < _GAIN * found.error:
        return False
    back = columns[used]
    rows[:, back] = np.roll(rows[:, back], len(rows) // 2, axis=0)
    by_chance = error(rows)
    return with_them < _GAIN * by_chance and time.perf_counter() < deadline


def _worth(contribution, slope):
    """What each column is worth: about how much the error would rise without it.

    Without a column that counts for little, distances are shorter by its part: to first order
    the error's slope by the logarithm of its scale, up to the metric's power. Columns that count
    for more come before those.
    """
    little = contribution < _LITTLE * contribution.sum()
    return np.where(little, slope[:-1], np.abs(slope).max() + contribution)


def _are_idle(samples, parameters, columns, deadline):
    """Whether the error is the same without some columns, or nearly so."""
    used, trial = np.isfinite(parameters), parameters.copy()
    trial[columns] = np.inf
    if not used[columns].any() or time.perf_counter() > deadline:
        return False  # they are left out already
    losses, start = samples(used[:-1]), parameters[used]
    return losses.error(trial[used], start) <= _TIE * losses.error(start, start)


class _Samples:
    """The leave-one-out error on some of the rows, others at each step.

    The first `n_early` steps take half as many.
    """

    _n_compared = 2  # steps whose samples tell parameters apart

    def __init__(self, kernel, rows, target, weight, categorical, size, n_jobs, n_early=0):
        self._data = rows, target, weight
        self._size = min(size, len(rows))
        self._n_early = n_early
        few = -(-self._size // 2) if n_early else 0
        self._early, self._late = (
            [LeaveOneOut(kernel, categorical, n_rows) for _ in range(SAMPLES)]
            for n_rows in (few, self._size)
        )
        self._n_jobs = n_jobs

    def error(self, parameters, reference) -> float:
        """Mean over samples that depend on `reference` alone."""

        def evaluate(number):
            loss = self._late[number % SAMPLES]
            sample = self._sample(reference, number, loss.n_rows)
            return loss(parameters, *sample, with_gradient=False)[0]

        n_samples = self._n_compared * self._n_different(self._late)
        pairs = slices(n_samples, SAMPLES)  # one at a time for each loss, which has buffers
        parts = (tile_map(evaluate, range(pair.start, pair.stop), self._n_jobs) for pair in pairs)
        return float(np.mean([error for part in parts for error in part]))

    def __call__(self, parameters, step):
        """Means of error and gradient over the samples of a step."""
        losses = self._early if step < self._n_early else self._late

        def evaluate(sample):
            loss = losses[sample]
            number = step * SAMPLES + sample
            return loss(parameters, *self._sample(parameters, number, loss.n_rows))

        samples = range(self._n_different(losses))
        errors, gradients = zip(*tile_map(evaluate, samples, self._n_jobs), strict=True)
        return np.mean(errors), np.mean(gradients, axis=0)

    def _n_different(self, losses) -> int:
        """Samples of a step: those of all rows there are would be the same."""
        return SAMPLES if len(self._data[0]) > losses[0].n_rows else 1

    def _sample(self, reference, number, n_rows):
        here = (number * n_rows + np.arange(n_rows)) % len(self._data[0])
        return [part[here] for part in self._data]


class _Neighbourhoods(_Samples):
    """The leave-one-out error around some of the rows, others at each step."""

    _n_compared = 8

    def __init__(self, kernel, rows, target, weight, categorical, size, n_jobs, n_early=0):
        super().__init__(kernel, rows, target, weight, categorical, size, n_jobs, n_early)
        self._columns = np.ascontiguousarray(rows.T)
        self._cap = np.where(categorical, 1.0, np.inf).astype(np.float32)
        self._squared = kernel.metric_power == 2

    def _sample(self, reference, number, n_rows):
        from rkhs.compute import _pair_loops

        rows, target, weight = self._data
        inverse = np.exp(-reference[:-1]).astype(np.float32)
        distance = np.empty(len(rows), np.float32)
        place = number % len(rows)
        _pair_loops.metric_to(self._columns, place, inverse, self._cap, self._squared, distance)
        here = np.argpartition(distance, n_rows - 1)[:n_rows]
        here = here[np.argsort(distance[here], kind="stable")]
        judged = weight[here] * (np.arange(n_rows) < n_rows // _JUDGED)
        local = target[here] - np.average(target[here], axis=0, weights=weight[here])
        return rows[here], local, weight[here], judged


def _adam(loss, start, n_steps, deadline):
    """Means of parameters, error and slope over the second half of the way.

    Of a shorter way it is the end.
    """
    here, mean, square = start.copy(), np.zeros_like(start), np.zeros_like(start)
    kept, errors, slopes = [], [], [np.zeros_like(start)]
    for step in range(n_steps):
        if time.perf_counter() > deadline:
            break
        error, gradient = loss(here, step)
        if not np.isfinite(error):  # the noise became too small for the matrix to have a factor
            here[-1] = max(here[-1], start[-1])
            continue
        mean += (1.0 - _DECAY) * (gradient - mean)
        square += (1.0 - _SQUARED_DECAY) * (gradient**2 - square)
        size = np.sqrt(square / (1.0 - _SQUARED_DECAY ** (step + 1))) + 1e-12
        rate = _FIRST_RATE + (_LAST_RATE - _FIRST_RATE) * step / n_steps
        here -= rate * mean / (1.0 - _DECAY ** (step + 1)) / size
        if step >= n_steps // 2:
            kept.append(here.copy())
        errors.append(error)
        slopes.append(gradient)
    if not errors:
        return start, np.inf, slopes[0]
    last = slice(-len(kept) or -1, None)
    end = np.mean(kept or [here], axis=0)
    return end, float(np.mean(errors[last])), np.mean(slopes[last], axis=0)


def _described(unit, used, kernel, X, weight, categorical, parameters):
    """Length scales of all columns, and how much each contributes to distances."""
    scales, few = np.full(X.shape[1], np.inf), slice(0, _PAIRS)
    scales[used] = unit * np.exp(parameters[:-1])
    return scales, _contributions(kernel, X[few], weight[few], scales, categorical)


def _negligible(contribution):
    """Numbers of the columns that hardly count, all of them together."""
    order = np.argsort(contribution, kind="stable")
    share = np.cumsum(contribution[order]) / max(contribution.sum(), np.finfo(float).tiny)
    return order[share < _NEGLIGIBLE]


def _contributions(kernel, X, weight, scales, categorical):
    """Root of the mean square, over pairs of rows, of one minus the kernel of each column alone.

    By the mean, columns that are seldom different would seem not to count.
    """
    other = np.roll(np.arange(len(X)), len(X) // 2 or 1)
    distance = np.abs(X - X[other])
    distance[:, categorical] = np.minimum(distance[:, categorical], 1.0)
    value = (distance / scales) ** kernel.metric_power
    kernel.metric_profile(value, np.empty_like(value))
    return np.sqrt(np.average((1.0 - value) ** 2, axis=0, weights=weight * weight[other]))
