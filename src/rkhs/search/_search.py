"""The best kernel machine for a table: scales from a sample, the rest by held-out rows."""

from dataclasses import dataclass, field

import numpy as np

from rkhs.data import RowSource
from rkhs.features import FeatureMap, RandomBinning
from rkhs.kernels import Laplacian
from rkhs.kernels._base import StationaryKernel
from rkhs.losses import Loss, SquaredError
from rkhs.search._sample import distinct_rows
from rkhs.search._scales import SAMPLE_ROWS, SAMPLES, STEPS, Scales, learn_scales
from rkhs.search._tuning import RIDGES, best_ridge, scaled, split
from rkhs.solvers import ConjugateGradient, NewtonCG, Solver

_FACTORS = (1.0, 0.5, 0.25, 0.125)  # of all length scales: more rows bear shorter ones
_LOWER = (1.0, 0.3, 0.1, 0.03, 0.01)  # of the ridge of the squared error, for other losses
_SAMPLED = 10**7  # numbers that scales are learnt from
_TRIAL_ROWS = 20_000
_TRIAL_GRIDS = 64
_GRIDS = 512
_WORK = 10**9  # look-ups of a pass with all grids
_TRIAL_TOL, _TOL = 1e-2, 3e-3
_NEWTON_TOL, _NEWTON_INNER = 1e-2, 10  # a tighter solution predicts no better


@dataclass(frozen=True)
class Choice:
    """What a search found.

    Attributes
    ----------
    kernel : Kernel
        With a length scale for each column.
    features : FeatureMap
    solver : Solver or str
    ridge : float
        alpha times the sum of the weights.
    report : list of str
        What was tried, and how it did.
    """

    kernel: StationaryKernel
    features: FeatureMap
    solver: Solver | str
    ridge: float
    report: list[str] = field(default_factory=list)


def search(
    source: RowSource, target, weight, loss: Loss, seed: int, memory: int, n_jobs=None
) -> Choice:
    """Length scales, penalty and features for a table, by errors on rows not fitted to."""
    distinct = distinct_rows(source, target, weight, seed)
    n_sample = _sample_size(source)
    sample = distinct.rows[:n_sample]
    scales = learn_scales(
        Laplacian(),
        source[sample],
        distinct.target[:n_sample],
        distinct.weight[:n_sample],
        source.categorical,
        n_jobs,
    )
    report = [_scales_line(scales, len(sample))]
    task = split(source, distinct, _TRIAL_ROWS)
    kernel = Laplacian(scales.length_scale)
    trial = RandomBinning(_TRIAL_GRIDS, random_state=seed)
    solver: Solver = ConjugateGradient(tol=_TRIAL_TOL)
    lowest, ridge, factor = np.inf, 1.0, 1.0
    for trial_factor in _FACTORS:
        candidate = scaled(kernel, trial_factor)
        error, best = best_ridge(task, candidate, trial, solver, SquaredError(), RIDGES, n_jobs)
        report.append(
            f"length scales x {trial_factor:g}, ridge {best:g}: held-out squared error {error:.4g}"
        )
        if error > lowest:
            break
        lowest, ridge, factor = error, best, trial_factor
    kernel = scaled(kernel, factor)
    solver = ConjugateGradient(tol=_TOL)
    if not loss.quadratic:
        solver = NewtonCG(tol=_NEWTON_TOL, max_inner=_NEWTON_INNER)
        ridges = [ridge * r for r in _LOWER]
        lowest, ridge = best_ridge(task, kernel, trial, solver, loss, ridges, n_jobs)
        report.append(f"{type(loss).__name__}, ridge {ridge:g}: held-out loss {lowest:.4g}")
    # Bin numbers take two or four bytes.
    most = min(memory // 8 // (4 * len(source)), _WORK // (len(source) * target.shape[1]))
    n_grids = int(np.clip(most, _TRIAL_GRIDS, _GRIDS))
    return Choice(kernel, RandomBinning(n_grids), solver, ridge, report)


def search_bytes(source: RowSource) -> int:
    """Memory that a search takes: rows to learn from, kernel matrices, bins of the trials."""
    n_rows, n_columns = source.shape
    sample = 20 * n_columns * _sample_size(source)
    matrices = 24 * SAMPLES * min(n_rows, SAMPLE_ROWS) ** 2
    trial = 4 * min(n_rows, _TRIAL_ROWS) * (_TRIAL_GRIDS + n_columns)
    return sample + matrices + trial + 48 * n_rows


def _sample_size(source):
    most = max(SAMPLE_ROWS, _SAMPLED // source.shape[1])
    return min(len(source), STEPS * SAMPLES * SAMPLE_ROWS, most)


def _scales_line(scales: Scales, n_rows: int) -> str:
    used = np.isfinite(scales.length_scale).sum()
    return (
        f"length scales of {used} of {len(scales.length_scale)} columns from {n_rows} rows: "
        f"leave-one-out error {scales.error:.4g} of the variance"
    )
