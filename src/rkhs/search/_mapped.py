"""A named kernel under a learnt linear map."""

import time
from collections.abc import Sequence

import numpy as np

from rkhs.data import RowSource
from rkhs.features import Nystrom
from rkhs.kernels import Mapped
from rkhs.kernels._base import StationaryKernel
from rkhs.kernels._radial import RadialKernel
from rkhs.search._metric import METRIC_ROWS, learn_metric
from rkhs.search._related import FEWEST_ROWS, learn_related, sample_size, scales_line
from rkhs.search._search import Choice
from rkhs.search._tuning import RIDGES, Task, best_dense_ridge, scaled, split, with_scale

# Fewer centres flatter maps of few directions, which more centres no longer need.
_TRIAL_ROWS, _TRIAL_CENTERS = 20_000, 1000
_SMALLEST_FACTOR = 1 / 32
_BETTER = 0.98  # times the error of the columns' own scales: less is lost again on more rows


def learn_mapped_kernel(
    kernel: StationaryKernel,
    source: RowSource,
    target,
    weight,
    seed: int,
    alpha: float | None = None,
    n_jobs=None,
    time_budget: float | None = None,
) -> Choice:
    """A linear map for a kernel of the Euclidean distance, and its penalty unless it is given.

    It starts from a length scale for each column, and ends there if the map that gradients
    suggest does not predict held-out rows better. Of a time budget, a quarter may go to length
    scales and another to the rest, after which no further step of either begins.
    """
    if not isinstance(kernel, RadialKernel):
        raise ValueError(
            f"{type(kernel).__name__} is a product over the columns, which a rotation would not "
            'leave one. metric="full" needs a kernel of the Euclidean distance: use '
            'kernel="gaussian", "exponential", "matern" or "rational_quadratic", or '
            'metric="diagonal".'
        )
    begin = time.perf_counter()
    quarter = np.inf if time_budget is None else 0.25 * time_budget
    related = learn_related(kernel, source, target, weight, seed, n_jobs, begin + quarter)
    rows, values, row_weight = related.sample
    deadline = begin + 2.0 * quarter
    found = learn_metric(kernel, rows, values, related.scales, row_weight, n_jobs, deadline)
    report = [
        scales_line(related, source.shape[1]),
        f"metric of {len(found.matrix)} directions from {min(len(rows), METRIC_ROWS)} rows: "
        "leave-one-out errors " + ", ".join(f"{error:.4g}" for error in found.errors),
    ]
    unit = with_scale(kernel, 1.0)

    def choice(matrix, ridge):
        wide = Mapped(unit, related.widened(matrix, 0.0, source.shape[1]))
        return Choice(wide, "auto", "auto", ridge, report)

    if len(related.distinct.rows) < FEWEST_ROWS:
        return choice(found.matrix, 1.0)
    task = split(related.source, related.distinct, _TRIAL_ROWS)
    ridges = RIDGES if alpha is None else (alpha * float(task.weight.sum()),)

    def attempt(name, matrix):
        error, factor, ridge = _try_factors(
            unit, _mapped(task, matrix), ridges, seed, n_jobs, deadline
        )
        report.append(
            f"Nystrom along {name}, length scales x {factor:.3g}, ridge {ridge:g}: "
            f"held-out squared error {error:.4g}"
        )
        return error, matrix / factor, ridge

    error, matrix, ridge = attempt("columns", found.start)
    if min(found.errors) < found.errors[0]:
        other = attempt("directions", found.matrix)
        if other[0] < _BETTER * error:
            error, matrix, ridge = other
    return choice(matrix, ridge)


def _mapped(task: Task, matrix) -> Task:
    """The same task on rows under a map, once for all trials."""

    def rows(source):
        return RowSource((source[:] @ matrix.T).astype(np.float32))

    return task._replace(source=rows(task.source), held_out=rows(task.held_out))


def _try_factors(kernel, task, ridges: Sequence[float], seed, n_jobs, deadline):
    """The lowest error of shorter and shorter length scales while it falls."""
    trial = Nystrom(min(_TRIAL_CENTERS, len(task.source)), random_state=seed)
    best, factor = (np.inf, 1.0, ridges[0]), 1.0
    while factor >= _SMALLEST_FACTOR:
        fit = best_dense_ridge(task, scaled(kernel, factor), trial, ridges, n_jobs)
        if not fit.loss < best[0]:
            break
        best = fit.loss, factor, fit.ridge
        if time.perf_counter() > deadline:
            break
        factor *= 0.5
    return best


def mapped_bytes(source: RowSource) -> int:
    """Memory that `learn_mapped_kernel` takes: rows, kernel matrices, the metric."""
    n_rows, n_columns = source.shape
    sample, trial = sample_size(source), min(n_rows, _TRIAL_ROWS)
    matrices = 8 * (8 * min(n_rows, METRIC_ROWS) ** 2 + 6 * n_columns**2)
    return 20 * n_columns * sample + 12 * n_columns * trial + matrices + 48 * n_rows
