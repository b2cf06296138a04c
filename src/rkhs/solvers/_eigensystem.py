"""Leading eigenpairs of a sample, and what they say about rank, batch and step."""

import numpy as np
from sklearn.utils.extmath import randomized_range_finder

from rkhs.compute import blas_for

_SMALL = 1000  # rows, up to which all eigenpairs are computed
_OVERSAMPLING = 20
_POWER_STEPS = 3
_ROUNDING = 10.0  # eigenvalues below this times eps times the largest are rounding


def top_eigenpairs(G: np.ndarray, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest eigenvalues of a positive semi-definite matrix, falling, and their vectors.

    Of a large matrix they are the Ritz pairs of a random subspace: the vectors V are
    orthonormal and V^T G V is diagonal whatever the subspace.
    """
    n_rows = len(G)
    count = min(count, n_rows)
    size = count + _OVERSAMPLING
    with blas_for(n_rows):
        if n_rows <= _SMALL or size > n_rows // 3:
            values, vectors = np.linalg.eigh(G)  # SciPy's for a part fails on equal values
        else:
            basis = randomized_range_finder(
                G,
                size=size,
                n_iter=_POWER_STEPS,
                power_iteration_normalizer="LU",
                random_state=seed,
            )
            values, vectors = np.linalg.eigh((basis.T @ (G @ basis)).astype(np.float64))
            vectors = basis @ vectors.astype(G.dtype)
    values, vectors = values[::-1][:count], vectors[:, ::-1][:, :count]
    return values.astype(np.float64), np.ascontiguousarray(vectors)


def useful_rank(values: np.ndarray, dtype) -> int:
    """How many eigenvalues, but for the last, stand out of rounding."""
    floor = _ROUNDING * np.finfo(dtype).eps * max(values[0], 0.0)
    return min(int(np.sum(values > floor)), len(values) - 1) if values[0] > 0 else 0


def flattened_norms(values, squares, norms) -> np.ndarray:
    """The largest squared norm after flattening the first k directions, for k = 0, 1, ...

    `squares` (rows, directions) are the squared coordinates of sample rows along the
    eigenvectors, `norms` their squared norms.
    """
    removed = np.cumsum(squares, axis=1)
    left = np.cumsum(squares / values[: squares.shape[1]], axis=1)
    flattened = norms[:, None] - removed + values[1 : squares.shape[1] + 1] * left
    return np.r_[norms.max(), np.maximum(flattened, 0.0).max(axis=0)]


def rank_for_batch(values, largest_norms, batch_size: int) -> int:
    """The smallest rank whose critical batch is this large, or the largest there is."""
    with np.errstate(divide="ignore"):
        critical = largest_norms / np.maximum(values[: len(largest_norms)], 0.0)
    enough = np.flatnonzero(critical >= batch_size)
    return int(enough[0]) if len(enough) else len(largest_norms) - 1


def largest_of_batches(K: np.ndarray, batch_size: int) -> float:
    """The largest eigenvalue that a diagonal block of this size has."""
    n_blocks = len(K) // batch_size
    if n_blocks == 0 or batch_size > 1000:
        return _largest(K[:batch_size, :batch_size])
    rows = np.arange(n_blocks * batch_size).reshape(n_blocks, batch_size)
    if batch_size <= 64:
        return float(np.linalg.eigvalsh(K[rows[:, :, None], rows[:, None, :]]).max())
    return max(_largest(K[part[0] : part[-1] + 1, part[0] : part[-1] + 1]) for part in rows)


def _largest(K):
    with blas_for(len(K)):
        return float(np.linalg.eigvalsh(K)[-1])
