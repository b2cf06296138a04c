"""A Gaussian kernel's whole space, every row a centre: for tables with many columns."""

import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from rkhs.data import RowSource
from rkhs.kernels import Gaussian
from rkhs.losses import SquaredError
from rkhs.operators import KernelOperator
from rkhs.problem import Problem
from rkhs.search._tuning import Task, first_rows
from rkhs.solvers import EigenPro

_COLUMNS = 48  # of numbers, from which distances of rows say more than cells of a grid
_WORK = 4 * 10**12  # rows squared times columns: a minute an epoch or so
_FIRST_ROWS, _ROWS = 5000, 15_000  # that metrics are compared on, and the best is tried on
_FIRST_EPOCHS = 2
_EPOCHS, _VISITS = (3, 10), 45_000  # at most, and the rows that they may come to
_FALLING = 0.99  # times the last epoch's error, for another one to be worth it
_CLOSE = 1.05  # times the lowest error on few rows: metrics that more rows may prefer
_NEAR = 0.5  # times the median distance is the length scale
_MEDIAN_ROWS = 1000


class Whole(NamedTuple):
    """The best of the kernels that were tried, and its function on the rows to judge by."""

    kernel: Gaussian
    error: float
    predicted: np.ndarray
    n_epochs: int  # of a fit to all rows
    seconds: float  # that it would take, about


def is_affordable(source: RowSource, memory: int) -> bool:
    """Whether a table has columns enough, and not too many rows."""
    n_rows, numbers = float(len(source)), ~source.categorical
    n_own = np.count_nonzero(numbers & np.isfinite(source.units))  # not made from others
    fits = 16 * n_rows * np.count_nonzero(numbers) <= memory // 4 and n_rows**2 * n_own <= _WORK
    return bool(n_own >= _COLUMNS and fits and not source.is_sparse)


def best_whole(
    task: Task,
    n_rows: int,
    metrics: Mapping[str, np.ndarray],
    seed: int,
    memory: int,
    n_jobs=None,
    deadline: float = np.inf,
) -> tuple[str, Whole] | None:
    """The metric whose kernel has the lowest error on held-out rows, and that kernel.

    Metrics are length scales of the columns, up to a common factor. They are compared on few rows,
    and those whose errors are close there on more. There is no penalty: what `EigenPro` does not
    fit in its few epochs is one. None if the deadline comes before there is a function to judge.
    """
    kernels = {name: _kernel(task, scale) for name, scale in metrics.items()}
    few = first_rows(task, _FIRST_ROWS)
    errors = {}
    for name, kernel in kernels.items():
        trials = _epochs(few, kernel, _FIRST_EPOCHS, seed, memory, n_jobs)
        errors[name] = min(error for error, _ in trials)
        if time.perf_counter() > deadline:
            return None
    task = first_rows(task, _ROWS)
    best: tuple[str, Whole] | None = None
    for name in sorted(errors, key=errors.__getitem__):
        if errors[name] > _CLOSE * min(errors.values()):
            break
        whole = _tried(task, kernels[name], n_rows, seed, memory, n_jobs, deadline)
        if best is None or whole.error < best[1].error:
            best = name, whole
        if time.perf_counter() > deadline:
            break
    return best


def _tried(task, kernel, n_rows, seed, memory, n_jobs, deadline) -> Whole:
    """A kernel as it does on the task, while the error falls.

    With more rows an epoch has more steps: a fit to all of them has as many as the trial, and an
    epoch at least.
    """
    begin = time.perf_counter()
    more = n_rows / len(task.source)
    best = Whole(kernel, np.inf, np.zeros_like(task.held_target), 1, np.inf)
    most = int(np.clip(_VISITS // len(task.source), *_EPOCHS))
    trials = _epochs(task, kernel, most, seed, memory, n_jobs)
    for epoch, (error, predicted) in enumerate(trials, start=1):
        if not error < _FALLING * best.error:
            break
        n_epochs = int(np.ceil(epoch / more))
        seconds = (time.perf_counter() - begin) / epoch * n_epochs * more**2
        best = Whole(kernel, error, predicted, n_epochs, seconds)
        if time.perf_counter() > deadline:
            break
    return best


def _kernel(task, scale):
    rows = task.source[slice(0, _MEDIAN_ROWS)]
    used = np.isfinite(scale)
    median = Gaussian("median").resolve(rows[:, used] / scale[used]).length_scale
    return Gaussian(_NEAR * median * scale)


def _epochs(task, kernel, n_epochs, seed, memory, n_jobs):
    """Error and function on the rows to judge by after each epoch."""
    problem = Problem(
        kernel=kernel,
        loss=SquaredError(),
        features=None,
        alpha=0.0,
        source=task.source,
        target=task.target,
        weight=task.weight / task.weight.sum(),
        operator=KernelOperator(kernel, task.source, task.source, np.float32, 0, n_jobs),
        seed=seed,
        memory=memory // 8,
        n_jobs=n_jobs,
    )
    solver = EigenPro()
    state = solver.init(problem)
    for _ in range(n_epochs):
        state = solver.step(problem, state)
        f = solver.finish(problem, state).evaluate(task.held_out, n_jobs).astype(np.float64)
        yield SquaredError().value(f, task.held_target, task.held_weight), f
