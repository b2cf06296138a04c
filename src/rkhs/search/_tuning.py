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
_BETTER = 0.998  # times it, for a smaller ridge to be taken
_WORTH = 0.995  # the same where a smaller ridge means a slower fit
_HELD_OUT = 0.25  # of the rows
LANCZOS_STEPS = 24  # as many products with the kernel matrix
_NOTHING = 1e-10  # of its size: a space that is spanned
_ROUNDING = 1e-15  # of a matrix of squares


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
        rows = distinct.rows[where]
        # Trials read them many times, and preparing rows costs more than reading them.
        table, chosen = (source, rows) if source.is_sparse else (source.gathered(rows), None)
        few = RowSource(table, chosen, source.categories)
        return few, distinct.target[where], distinct.weight[where]

    return Task(*part(slice(held, n_rows)), *part(slice(0, held)))


def first_rows(task: Task, n_rows: int) -> Task:
    """The task with no more rows to fit to than these."""
    if n_rows >= len(task.source):
        return task
    some = slice(0, n_rows)
    rows = RowSource(task.source[some], None, task.source.categories)
    return task._replace(source=rows, target=task.target[some], weight=task.weight[some])


def with_scale(kernel: StationaryKernel, scale) -> StationaryKernel:
    """The same kernel with other length scales."""
    return type(kernel)(**{**kernel.get_params(deep=False), "length_scale": scale})


def scaled(kernel: StationaryKernel, factor: float) -> StationaryKernel:
    """The same kernel with longer or shorter length scales."""
    return with_scale(kernel, factor * np.asarray(kernel.length_scale))


class DenseFit(NamedTuple):
    """As `PathFit`, with the function on the rows fitted to."""

    loss: float
    ridge: float
    predicted: np.ndarray
    fitted: np.ndarray


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
    best = 0
    for place, error in enumerate(errors):
        best = place if error < _BETTER * errors[best] else best
    fitted = operator.matmat(np.split(coef, len(ridges), axis=1)[best])
    return DenseFit(errors[best], ridges[best], predicted[best], fitted.astype(np.float64))


class PathFit(NamedTuple):
    """The best of a path, and its function on the rows to judge by."""

    loss: float
    ridge: float
    predicted: np.ndarray
    objective: float = np.inf  # on the rows fitted to


def best_squared_ridge(
    task: Task, kernel: StationaryKernel, features: FeatureMap, ridges: Sequence[float], n_jobs=None
) -> PathFit:
    """As `best_ridge`, for the squared error: one Krylov space for all ridges.

    The same vectors span it whatever multiple of the identity is added to the kernel matrix
    (Lanczos): in coordinates of them each ridge is a small system. Ridges too small to be solved
    in so few steps are stopped early, which is a penalty of its own.
    """
    features = clone(features).fit_rows(task.source, task.weight, np.float32, kernel, n_jobs)
    operator, judge = (features.operator(rows, np.float32, 2**30, n_jobs) for rows in task[::3])
    if hasattr(judge, "hold"):
        judge.hold()
    root = np.sqrt(task.weight / task.weight.sum())[:, None]
    target = root * task.target
    norm = np.linalg.norm(target, axis=0)
    basis, middle, beside = _lanczos(
        lambda v: root * operator.outer(root * v), target / np.where(norm > 0, norm, 1.0)
    )
    n_steps, n_outputs = middle.shape
    system = np.zeros((n_outputs, n_steps, n_steps))
    step = np.arange(n_steps)
    system[:, step, step] = middle.T
    system[:, step[1:], step[:-1]] = system[:, step[:-1], step[1:]] = beside[:-1].T
    # Of all functions in the space, the one that minimises the objective itself: rows of `system`
    # and one more, below its last, are what the matrix makes of the space's vectors.
    squared = system @ system
    squared[:, -1, -1] += beside[-1] ** 2
    trace = np.einsum("kii->k", squared)
    rounding = np.where(trace > 0, _ROUNDING * trace, 1.0)  # where the space is spanned
    squared += rounding[:, None, None] * np.eye(n_steps)
    right = norm[:, None, None] * system[:, :, :1]
    best = PathFit(np.inf, ridges[0], np.zeros_like(task.held_target))
    for ridge in ridges:
        place = np.linalg.solve(squared + ridge / task.weight.sum() * system, right)[..., 0]
        coef = operator.rmatmat(root * np.einsum("kij,jk->ij", basis, place))
        f = judge.matmat(coef).astype(np.float64)
        value = SquaredError().value(f, task.held_target, task.held_weight)
        if value < _WORTH * best.loss:
            best = PathFit(value, ridge, f)
        elif value > _WORSE * best.loss:
            break
    return best


def _lanczos(multiply, start):
    """Orthonormal vectors and the tridiagonal matrix of a symmetric one, column by column."""
    basis, middle, beside = [], [], []
    before, here = np.zeros_like(start), start
    size = np.zeros(start.shape[1])
    for _ in range(LANCZOS_STEPS):
        basis.append(here.astype(np.float32))
        ahead = multiply(here) - size * before
        middle.append(np.einsum("ij,ij->j", here, ahead))
        ahead -= middle[-1] * here
        size = np.linalg.norm(ahead, axis=0)
        size = np.where(size > _NOTHING * np.abs(middle[0]), size, 0.0)
        beside.append(size)
        before, here = here, ahead / np.where(size > 0, size, 1.0) * (size > 0)
        if not size.any():
            break
    return np.array(basis), np.array(middle), np.array(beside)


def best_ridge(
    task: Task,
    kernel: StationaryKernel,
    features: FeatureMap,
    solver: Solver,
    loss: Loss,
    ridges: Sequence[float],
    n_jobs=None,
) -> PathFit:
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
    ).with_fewer_unknowns()
    judge = features.operator(task.held_out, np.float32, keep_bytes=2**30, n_jobs=n_jobs)
    if hasattr(judge, "hold"):
        judge.hold()
    best = PathFit(np.inf, ridges[0], np.zeros_like(task.held_target))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a few digits will do
        fits = path(problem, solver, [ridge / total for ridge in ridges])
        for ridge, fit in zip(ridges, fits, strict=True):
            coef = problem.feature_coef(fit.state.coef)
            f = judge.matmat(np.ascontiguousarray(coef, np.float32)).astype(np.float64)
            value = loss.value(f, task.held_target, task.held_weight)
            if value < best.loss:
                best = PathFit(value, ridge, f, fit.state.objective)
            elif value > _WORSE * best.loss:
                break
    return best
