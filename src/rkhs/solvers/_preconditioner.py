"""Preconditioners: of dense features and kernels from a sample of rows (Nyström).

Each approximates the second moment G of the features (or the kernel matrix) once, and then
`factor(weight, curvature, alpha)` gives a function that applies (c G + alpha I)^-1, where c
stands for the loss's second derivatives: an array of shape (rows, outputs), or None for one.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh, lapack, solve_triangular

from rkhs.compute import blas_for, multiply, run_tiles, slices, uniform
from rkhs.data import RowSource
from rkhs.operators import KernelOperator, WhitenedOperator, gram_factor

_STREAM = 1101
_LARGEST_DENSE = 20_000
_RANK = 1000
_ROWS_PER_FEATURE = (2, 8)  # the least that help, and the most that pay
_PRODUCTS = 40  # with all rows, whose work the sampled second moment may cost
_OUTPUTS_FOR_ONE = 8  # a product with fewer takes as long: it waits for memory
_LARGEST_SAMPLED = 4000
_POWER_STEPS = 20

Apply = Callable[[np.ndarray], np.ndarray]  # the result is valid until the next call


class DensePreconditioner:
    """All of G, as a matrix (its lower triangle counts)."""

    def __init__(self, second_moment: np.ndarray):
        self._moment = second_moment

    def factor(self, weight, curvature, alpha: float) -> Apply:
        factor = _shifted_factor(self._moment, _mean(weight, curvature), alpha)

        def solve(R):
            return _solved(factor, R.astype(factor.dtype)).astype(np.float64)

        return solve


class LowRankPreconditioner:
    """The leading eigenpairs of G; the rest is taken to be as large as the last of them."""

    def __init__(self, vectors: np.ndarray, values: np.ndarray):
        self._vectors = vectors  # (size, rank), orthonormal columns
        self._values = values

    def factor(self, weight, curvature, alpha: float) -> Apply:
        values = _mean(weight, curvature) * self._values + alpha
        smallest = values.min()
        gain = (smallest / values - 1.0)[:, None]

        def solve(R):
            inner = gain * (self._vectors.T @ R.astype(self._vectors.dtype))
            return R + (self._vectors @ inner.astype(self._vectors.dtype)).astype(np.float64)

        return solve


class DiagonalPreconditioner:
    """The root of the diagonal of G, for random binning.

    Within a grid the diagonal is all of G, but grids overlap: the diagonal itself speeds up
    the first steps and slows down the last; its root does well in both (docs/decisions.md).
    """

    def __init__(self, operator):
        self._operator = operator

    def factor(self, weight, curvature, alpha: float) -> Apply:
        rows = weight[:, None] if curvature is None else weight[:, None] * curvature
        inverse = self._operator.squared_column_sums(rows)
        inverse += max(alpha, np.finfo(np.float32).tiny)
        np.sqrt(inverse, out=inverse)
        np.reciprocal(inverse, out=inverse)
        room = np.empty(0)

        def solve(R):
            nonlocal room
            if room.shape != R.shape:
                room = np.empty_like(R)
            multiply(inverse, R, room, self._operator.n_jobs)
            return room

        return solve


class NoPreconditioner:
    """The identity."""

    def factor(self, weight, curvature, alpha: float) -> Apply:
        return lambda R: R


class RowPreconditioner:
    """For S^1/2 Z Z^T S^1/2, S the weights, with a few dense features Z_1 among those of Z.

    The others' part is taken to be diagonal, c: what is inverted is
    ``D^1/2 (I + R^1/2 Z_1 Z_1^T R^1/2) D^1/2`` with D = alpha + c S and R = S / D.
    """

    def __init__(self, dense, diagonal: float):
        self._dense = dense
        self._diagonal = diagonal

    def factor(self, weight, curvature, alpha: float) -> Apply:
        diagonal = alpha + self._diagonal * weight
        share, root = weight / diagonal, np.sqrt(diagonal)[:, None]
        moment = self._dense.second_moment(np.arange(len(share)), share)
        factor = _shifted_factor(moment, 1.0, 1.0)
        share_root = np.sqrt(share)[:, None]

        def solve(R):
            R = R / root
            inner = self._dense.rmatmat(share_root * R)
            inner = _solved(factor, inner)
            R -= share_root * self._dense.matmat(inner)
            return R / root

        return solve


class BlockPreconditioner:
    """One of its own for each of the parts side by side, as if they were orthogonal."""

    def __init__(self, parts, columns: Sequence[slice]):
        self._parts = parts
        self._columns = columns

    def factor(self, weight, curvature, alpha: float) -> Apply:
        solvers = [part.factor(weight, curvature, alpha) for part in self._parts]
        room = np.empty(0)

        def solve(R):
            nonlocal room
            if room.shape != R.shape:
                room = np.empty_like(R)
            for solver, columns in zip(solvers, self._columns, strict=True):
                room[columns] = solver(R[columns])
            return room

        return solve


def _shifted_factor(moment, size: float, ridge: float) -> np.ndarray:
    """The lower Cholesky factor of ``size * moment + ridge I``."""
    while True:
        matrix = size * moment
        matrix[np.diag_indices_from(matrix)] += ridge
        try:
            with blas_for(len(matrix)):
                return cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            # Rounding made the matrix indefinite: a larger ridge only costs iterations.
            largest = size * float(np.diagonal(moment).max())
            ridge = 10.0 * max(ridge, np.finfo(matrix.dtype).eps * largest)


def _solved(factor, R):
    """Solve L L^T x = R. For one column LAPACK's own routine takes three times as long."""
    for transposed in (0, 1):
        R = solve_triangular(factor, R, lower=True, trans=transposed, check_finite=False)
    return R


def _mean(weight, curvature) -> float:
    if curvature is None:
        return 1.0
    return max(float(np.average(curvature.mean(axis=1), weights=weight)), 1e-8)


def weighted_rows(problem, count: int) -> np.ndarray:
    """`count` row numbers, as if each row were repeated in proportion to its weight."""
    if count >= len(problem.weight):
        return np.flatnonzero(problem.weight > 0)
    cumulative = np.cumsum(problem.weight)
    offset = uniform(problem.seed, _STREAM, 0, (count,))
    points = (np.arange(count) + offset) / count * cumulative[-1]
    return np.minimum(np.searchsorted(cumulative, points), len(cumulative) - 1)


def _rows_and_shares(problem, count):
    """Rows and the share of the mean that each stands for."""
    rows = weighted_rows(problem, count)
    if count >= len(problem.weight):
        return rows, problem.weight[rows]
    return rows, np.full(len(rows), 1.0 / len(rows))


def feature_plan(operator, budget: int, n_outputs: int = 1) -> tuple[int, int]:
    """Rank of the preconditioner for such features (all: dense), and its bytes."""
    n_features = operator.shape[1]
    if operator.parts:
        return 0, sum(feature_plan(part, budget, n_outputs)[1] for part in operator.parts)
    if operator.is_sparse:
        return 0, 32 * n_features * n_outputs
    dense = 16 * n_features**2
    if n_features <= _LARGEST_DENSE and dense <= budget:
        return n_features, dense
    rank = int(np.clip(budget // (16 * n_features), 1, min(_RANK, n_features)))
    return rank, 16 * n_features * rank


def kernel_plan(operator, budget: int, n_outputs: int = 1) -> tuple[int, int]:
    """Number of landmarks for the kernel system of all rows, and the bytes."""
    n_rows = operator.shape[0]
    rank = int(max(1, min(n_rows, 4 * _RANK, 10 * np.sqrt(n_rows), budget // (16 * n_rows))))
    return rank, 16 * n_rows * rank


def for_features(problem):
    """A preconditioner for Z^T Z from several times as many rows as features.

    Twice the square root of features over rows bounds the relative error of the sampled
    second moment: two rows a feature are the least that helps, four give a condition number
    of about nine, and more are taken while that costs no more than some products with all
    rows. With many `Nystrom` centres, which are a uniform sample themselves, their own
    features L are the cheaper choice.
    """
    operator, features = problem.operator, problem.features
    n_features = operator.shape[1]
    if operator.parts:
        parts = zip(features.maps_, operator.parts, strict=True)
        own = [replace(problem, features=part, operator=matrix) for part, matrix in parts]
        return BlockPreconditioner([for_features(part) for part in own], operator.columns)
    if operator.is_sparse:
        return DiagonalPreconditioner(operator)
    rank, _ = feature_plan(operator, problem.memory)
    if rank < n_features:
        return _low_rank(problem, rank)
    if (
        isinstance(operator, WhitenedOperator)
        and features.sampling == "uniform"
        and n_features > _LARGEST_SAMPLED
    ):
        moment, _ = lapack.dlauum(operator.factor, lower=1)
        return DensePreconditioner(moment / n_features)
    outputs = max(problem.target.shape[1], _OUTPUTS_FOR_ONE)
    affordable = _PRODUCTS * operator.shape[0] * outputs // n_features
    fewest, most = (per_feature * n_features for per_feature in _ROWS_PER_FEATURE)
    rows, shares = _rows_and_shares(problem, min(max(affordable, fewest), most))
    return DensePreconditioner(operator.second_moment(rows, shares))


def _low_rank(problem, rank):
    rows, shares = _rows_and_shares(problem, rank)
    Z = problem.operator.take(rows) * np.sqrt(shares)[:, None].astype(problem.operator.dtype)
    with blas_for(len(Z)):
        values, vectors = eigh(np.float64(Z @ Z.T))
    keep = values > 1e-6 * values[-1]
    values, vectors = values[keep], vectors[:, keep]
    return LowRankPreconditioner(Z.T @ (vectors / np.sqrt(values)).astype(Z.dtype), values)


def for_rows(problem):
    """A preconditioner for S^1/2 K S^1/2, S the diagonal of the weights."""
    if problem.features is None:
        return _for_kernel(problem, np.sqrt(problem.weight))
    parts = problem.operator.parts
    dense = next((part for part in parts if not part.is_sparse), None)
    if dense is None:  # a diagonal would tell a row of weight 2 from two rows, and gain little
        return NoPreconditioner()
    return RowPreconditioner(dense, sum(p.squared_row_norm for p in parts if p.is_sparse))


def _for_kernel(problem, root_weight: np.ndarray):
    """For S K S with S the diagonal of `root_weight`."""
    rank, _ = kernel_plan(problem.operator, problem.memory)
    rows = np.unique(weighted_rows(problem, rank))
    landmarks = problem.source[rows]
    factor = gram_factor(problem.kernel, landmarks, problem.operator.dtype)
    operator = KernelOperator(
        problem.kernel,
        problem.source,
        RowSource(landmarks),
        problem.operator.dtype,
        n_jobs=problem.n_jobs,
    )
    Z = np.empty(operator.shape, operator.dtype)

    def fill(part):
        tile = np.hstack(list(operator.compute(part)))
        tile *= root_weight[part, None].astype(tile.dtype)
        Z[part] = solve_triangular(factor, tile.T, lower=True, check_finite=False).T

    run_tiles(fill, slices(len(Z), 512), problem.n_jobs)
    with blas_for(Z.shape[1]):
        values, vectors = eigh(np.float64(Z.T @ Z))
    keep = values > 1e-6 * values[-1]
    values, vectors = values[keep], vectors[:, keep]
    return LowRankPreconditioner(Z @ (vectors / np.sqrt(values)).astype(Z.dtype), values)


def largest_eigenvalue(Z: np.ndarray) -> float:
    """Of Z.T @ Z / rows, from below: power iteration."""
    v = Z.mean(axis=0)
    top = 0.0
    for _ in range(_POWER_STEPS):
        norm = float(np.linalg.norm(v))
        if norm == 0.0:
            break
        v = Z.T @ (Z @ (v / norm))
        top = float(np.linalg.norm(v)) / len(Z)
    return top
