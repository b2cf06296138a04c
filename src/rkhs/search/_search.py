"""The best kernel machine for a table: scales from a sample, the rest by held-out rows."""

import time
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from rkhs.data import RowSource
from rkhs.features import FeatureMap, Nystrom, RandomBinning
from rkhs.features._base import sample_rows
from rkhs.kernels import Laplacian
from rkhs.kernels._base import StationaryKernel
from rkhs.losses import Loss, SquaredError
from rkhs.search._sample import distinct_rows
from rkhs.search._scales import SAMPLE_ROWS, SAMPLES, STEPS, Scales, learn_scales
from rkhs.search._tuning import RIDGES, best_dense_ridge, best_ridge, scaled, split
from rkhs.solvers import ConjugateGradient, NewtonCG, Solver

_SMALLEST_FACTOR = 1 / 32  # of all length scales: more rows bear shorter ones
_LOWER = (1.0, 0.3, 0.1, 0.03, 0.01)  # of the ridge of the squared error, for other losses
_SAMPLED = 10**7  # numbers that scales are learnt from
_TRIAL_ROWS, _MOST_TRIAL_ROWS, _TRIAL_TARGETS = 20_000, 100_000, 400_000
_TRIAL_GRIDS = 64
_FEWEST_ROWS = 50  # that differ
_GRIDS = 512
_TRIAL_CENTERS, _CENTERS = 800, 2000
_SMOOTH = 1.25  # times the error with grids, up to which that of few rows makes centres worth a try
_CLEARLY = 0.9  # of the error with grids of the trial: those of the model are more
_WORK = 12 * 10**7  # look-ups of a pass with all grids, times the root of the outputs
_TRIAL_TOL, _TOL = 1e-2, 3e-3
_NEWTON_TOL, _NEWTON_INNER = 1e-2, 10  # a tighter solution predicts no better


@dataclass(frozen=True)
class Choice:
    """What a search found.

    Attributes
    ----------
    kernel : Kernel
        With a length scale for each column.
    features : FeatureMap or "auto"
    solver : Solver or "auto"
    ridge : float
        alpha times the sum of the weights.
    report : list of str
        What was tried, and how it did.
    """

    kernel: StationaryKernel
    features: FeatureMap | str
    solver: Solver | str
    ridge: float
    report: list[str] = field(default_factory=list)


def search(
    source: RowSource,
    target,
    weight,
    loss: Loss,
    seed: int,
    memory: int,
    n_jobs=None,
    time_budget: float | None = None,
) -> Choice:
    """Length scales, penalty and features for a table, by errors on rows not fitted to.

    Of a time budget, a quarter may go to length scales and another to trials, after which no
    further step of either begins; without one the result depends on the arguments alone.
    """
    begin = time.perf_counter()
    quarter = np.inf if time_budget is None else 0.25 * time_budget
    distinct = distinct_rows(source, target, weight, seed)
    if len(distinct.rows) < _FEWEST_ROWS:
        return unsearched(source, weight, seed, "too few different rows for a search")
    few = slice(0, _sample_size(source))
    scales = learn_scales(
        Laplacian(),
        source[distinct.rows[few]],
        distinct.target[few],
        distinct.weight[few],
        source.categorical,
        n_jobs,
        begin + quarter,
    )
    report = [_scales_line(scales, len(distinct.rows[few]))]
    task = split(source, distinct, _trial_size(source, target.shape[1]))
    kernel = Laplacian(scales.length_scale)
    found = _Best(kernel, report, begin + 2.0 * quarter)
    _try_binning(found, task, seed, n_jobs)
    # Bin numbers take two or four bytes.
    most = min(memory // 8 // (4 * len(source)), _WORK / (len(source) * np.sqrt(target.shape[1])))
    features: FeatureMap = RandomBinning(int(np.clip(most, _TRIAL_GRIDS, _GRIDS)))
    solver: Solver = ConjugateGradient(tol=_TOL)
    if loss.quadratic:
        smooth = not found.late and _is_smooth(scales, found, task)
        if smooth and _try_centers(found, task, seed, n_jobs):
            features = Nystrom(min(_CENTERS, len(distinct.rows), int(np.sqrt(memory / 128))))
    else:
        solver = NewtonCG(tol=_NEWTON_TOL, max_inner=_NEWTON_INNER)
        ridges = [found.ridge * r for r in (_LOWER[:1] if found.late else _LOWER)]
        trial = RandomBinning(_TRIAL_GRIDS, random_state=seed)
        lowest, found.ridge = best_ridge(
            task, scaled(kernel, found.factor), trial, solver, loss, ridges, n_jobs
        )
        report.append(f"{type(loss).__name__}, ridge {found.ridge:g}: held-out loss {lowest:.4g}")
    return Choice(scaled(kernel, found.factor), features, solver, found.ridge, report)


def learn_kernel(
    kernel: StationaryKernel,
    source: RowSource,
    target,
    weight,
    seed: int,
    alpha: float | None = None,
    n_jobs=None,
    time_budget: float | None = None,
) -> Choice:
    """A kernel's length scales alone, and its penalty unless it is given.

    As `search`, with grids for kernels that have them and centres for others.
    """
    begin = time.perf_counter()
    half = np.inf if time_budget is None else 0.5 * time_budget
    distinct = distinct_rows(source, target, weight, seed)
    few = slice(0, _sample_size(source))
    scales = learn_scales(
        kernel,
        source[distinct.rows[few]],
        distinct.target[few],
        distinct.weight[few],
        source.categorical,
        n_jobs,
        begin + half,
    )
    kernel = type(kernel)(**{**kernel.get_params(deep=False), "length_scale": scales.length_scale})
    report = [_scales_line(scales, len(distinct.rows[few]))]
    found = _Best(kernel, report, begin + half)
    if len(distinct.rows) < _FEWEST_ROWS:
        return Choice(kernel, "auto", "auto", found.ridge, report)
    task = split(source, distinct, _trial_size(source, target.shape[1]))
    ridges = RIDGES if alpha is None else (alpha * float(task.weight.sum()),)
    if kernel.has_grids:
        _try_binning(found, task, seed, n_jobs, ridges)
    else:
        _try_factors(found, partial(_attempt_centers, found, task, seed, n_jobs, ridges))
    return Choice(scaled(kernel, found.factor), "auto", "auto", found.ridge, report)


@dataclass
class _Best:
    """The lowest squared error on held-out rows so far, and what had it."""

    kernel: StationaryKernel
    report: list[str]
    deadline: float = np.inf
    error: float = np.inf
    ridge: float = 1.0
    factor: float = 1.0

    @property
    def late(self) -> bool:
        return time.perf_counter() > self.deadline

    def better(self, name: str, factor: float, error: float, ridge: float) -> bool:
        """Note a trial; whether it is the best yet."""
        self.report.append(
            f"{name}, length scales x {factor:.3g}, ridge {ridge:g}: "
            f"held-out squared error {error:.4g}"
        )
        if not error < self.error:
            return False
        self.error, self.ridge, self.factor = error, ridge, factor
        return True


def _try_binning(found, task, seed, n_jobs, ridges=RIDGES):
    """Random grids, few of them."""
    trial = RandomBinning(_TRIAL_GRIDS, random_state=seed)
    solver = ConjugateGradient(tol=_TRIAL_TOL)

    def attempt(factor):
        candidate = scaled(found.kernel, factor)
        result = best_ridge(task, candidate, trial, solver, SquaredError(), ridges, n_jobs)
        return found.better("RandomBinning", factor, *result)

    _try_factors(found, attempt)


def _try_factors(found, attempt):
    """Shorter and shorter length scales while the error falls, then half a step either way."""
    factor = 1.0
    while attempt(factor) and factor > _SMALLEST_FACTOR and not found.late:
        factor *= 0.5
    best = found.factor
    if not (found.late or attempt(best * np.sqrt(0.5)) or found.late):
        attempt(best * np.sqrt(2.0))


def _is_smooth(scales, found, task):
    """Whether few rows predict about as well without grids as many with them.

    Then it is the grids' own noise that is left, and centres may do better.
    """
    if task.source.categorical.any():
        return False
    mean = np.average(task.held_target, axis=0, weights=task.held_weight)
    variance = 2.0 * SquaredError().value(0 * task.held_target + mean, *task[4:])
    return scales.error * variance < _SMOOTH * 2.0 * found.error


def _try_centers(found, task, seed, n_jobs):
    """Whether kernel functions at some rows do clearly better than grids."""
    grids = found.error
    found.error *= _CLEARLY
    for factor in (1.0, 0.5):
        _attempt_centers(found, task, seed, n_jobs, RIDGES, factor)
    return found.error < _CLEARLY * grids


def _attempt_centers(found, task, seed, n_jobs, ridges, factor):
    trial = Nystrom(min(_TRIAL_CENTERS, len(task.source)), random_state=seed)
    result = best_dense_ridge(task, scaled(found.kernel, factor), trial, ridges, n_jobs)
    return found.better("Nystrom", factor, *result)


def unsearched(source: RowSource, weight, seed: int, reason: str) -> Choice:
    """Random binning with scales from the columns' deviations, and the usual penalty."""
    rows, row_weight = sample_rows(source, weight, seed)
    kernel = Laplacian("auto").resolve(rows, row_weight, source.categorical)
    return Choice(kernel, RandomBinning(), "auto", 1.0, [reason])


def search_bytes(source: RowSource) -> int:
    """Memory that a search takes: rows to learn from, kernel matrices, bins of the trials."""
    n_rows, n_columns = source.shape
    sample = 20 * n_columns * _sample_size(source)
    matrices = 24 * SAMPLES * min(n_rows, SAMPLE_ROWS) ** 2
    trial = 4 * min(n_rows, _trial_size(source, 1)) * (_TRIAL_GRIDS + n_columns)
    return sample + matrices + trial + 48 * n_rows


def _trial_size(source, n_outputs):
    """A quarter of many rows: the best length scales fall as rows are added."""
    most = min(_MOST_TRIAL_ROWS, max(_TRIAL_ROWS, _TRIAL_TARGETS // n_outputs))
    return int(np.clip(len(source) // 4, _TRIAL_ROWS, most))


def _sample_size(source):
    most = max(SAMPLE_ROWS, _SAMPLED // source.shape[1])
    return min(len(source), STEPS * SAMPLES * SAMPLE_ROWS, most)


def _scales_line(scales: Scales, n_rows: int) -> str:
    used = np.isfinite(scales.length_scale).sum()
    return (
        f"length scales of {used} of {len(scales.length_scale)} columns from {n_rows} rows: "
        f"leave-one-out error {scales.error:.4g} of the variance"
    )
