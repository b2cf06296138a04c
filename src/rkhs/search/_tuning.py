"""A common factor of all length scales, and the penalty, by errors on held-out rows."""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from rkhs.compute import blas_for
from rkhs.data import RowSource
from rkhs.driver import path
from rkhs.features import FeatureMap
from rkhs.kernels._base import StationaryKernel
from rkhs.losses import Loss, SquaredError
from rkhs.problem import Problem
from rkhs.solvers import Solver

RIDGES = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)  # alpha times the sum of the weights
_WORSE = 1.002  # times the lowest loss so far, where a path ends
_HELD_OUT = 0.25  # of the rows


class Task(NamedTuple):
    """Rows to fit to, and rows to judge by."""

    source: RowSource
    target: np.ndarray
    weight: np.ndarray
    held_out: RowSource
    held_target: np.ndarray
    held_weight: np.ndarray


def split(source: RowSource, distinct, n_rows: int) -> Task:
    """The first rows of a random order to judge by, and those after them to fit to."""
    n_rows = min(n_rows, len(distinct.rows))
    held = max(1, int(_HELD_OUT * n_rows))

    def part(where):
        rows = RowSource(source, distinct.rows[where], source.categories)
        return rows, distinct.target[where], distinct.weight[where]

    return Task(*part(slice(held, n_rows)), *part(slice(0, held)))


def scaled(kernel: StationaryKernel, factor: float) -> StationaryKernel:
    """The same kernel with longer or shorter length scales."""
    scale = factor * np.asarray(kernel.length_scale)
    return type(kernel)(**{**kernel.get_params(deep=False), "length_scale": scale})


class DenseFit(NamedTuple):
    """The best of a path, and the function on the rows fitted to and on those to judge by."""

    error: float
    ridge: float
    fitted: np.ndarray
    predicted: np.ndarray


def best_dense_ridge(
    task: Task, kernel: StationaryKernel, features: FeatureMap, ridges: Sequence[float], n_jobs=None
) -> DenseFit:
    """As `best_ridge`, for the squared error and dense features: one factorisation for all."""
    features = clone(features).fit_rows(task.source, task.weight, np.float32, kernel, n_jobs)
    operator, judge = (features.operator(rows, np.float32, 2**30, n_jobs) for rows in task[::3])
    share = task.weight / task.weight.sum()
    moment = operator.second_moment(np.arange(len(share)), share)
    with blas_for(len(moment)):
        values, vectors = eigh(moment, overwrite_a=True, check_finite=False)
    right = vectors.T @ operator.rmatmat(share[:, None] * task.target)
    ridge = np.repeat(ridges, task.target.shape[1]) / task.weight.sum()
    inverse = 1.0 / (np.maximum(values, 0.0)[:, None] + ridge)
    coef = vectors @ (inverse * np.tile(right, len(ridges)))
    predicted = np.split(judge.matmat(coef).astype(np.float64), len(ridges), axis=1)
    errors = [SquaredError().value(f, *task[4:]) for f in predicted]
    best = int(np.argmin(errors))
    fitted = operator.matmat(np.split(coef, len(ridges), axis=1)[best])
    return DenseFit(errors[best], ridges[best], fitted.astype(np.float64), predicted[best])


def best_ridge(
    task: Task,
    kernel: StationaryKernel,
    features: FeatureMap,
    solver: Solver,
    loss: Loss,
    ridges: Sequence[float],
    n_jobs=None,
) -> tuple[float, float]:
    """The lowest loss on held-out rows and its ridge, from the largest down while it falls."""
    features = clone(features).fit_rows(task.source, task.weight, np.float32, kernel, n_jobs)
    total = task.weight.sum()
    problem = Problem(
        kernel=features.kernel_,
        loss=loss,
        features=features,
        alpha=ridges[0] / total,
        source=task.source,
        target=task.target,
        weight=task.weight / total,
        operator=features.operator(task.source, np.float32, keep_bytes=2**30, n_jobs=n_jobs),
        n_jobs=n_jobs,
    )
    judge = features.operator(task.held_out, np.float32, keep_bytes=2**30, n_jobs=n_jobs)
    if hasattr(judge, "hold"):
        judge.hold()
    lowest, best = np.inf, ridges[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a few digits will do
        fits = path(problem, solver, [ridge / total for ridge in ridges])
        for ridge, fit in zip(ridges, fits, strict=True):
            f = judge.matmat(np.ascontiguousarray(fit.state.coef, np.float32))
            value = loss.value(f.astype(np.float64), task.held_target, task.held_weight)
            if value < lowest:
                lowest, best = value, ridge
            elif value > _WORSE * lowest:
                break
    return lowest, best
