"""Sums and updates of long vectors in place, on all cores, in one pass each.

Arrays are (length, outputs); sums are the same for any number of threads.
"""

import numpy as np

from rkhs.compute._threads import slices, tile_map

_LENGTH = 2**17  # of the pieces that threads take


def _pieces(array):
    return slices(len(array), max(1, _LENGTH // array.shape[1]))


def _one_a_column(factor, A):
    return np.broadcast_to(np.asarray(factor, np.float64), A.shape[1:]).copy()


def fill(A: np.ndarray, values, n_jobs=None) -> None:
    """A[...] = values, an array of A's shape or a number."""

    def part(piece):
        A[piece] = values[piece] if isinstance(values, np.ndarray) else values

    for _ in tile_map(part, _pieces(A), n_jobs):
        pass


def multiply(A: np.ndarray, B: np.ndarray, out: np.ndarray, n_jobs=None) -> None:
    """out = A * B, where A may have a single column."""

    def part(piece):
        np.multiply(A[piece], B[piece], out=out[piece])

    for _ in tile_map(part, _pieces(out), n_jobs):
        pass


def dots(A: np.ndarray, B: np.ndarray, n_jobs=None) -> np.ndarray:
    """Inner product of each column of A with that of B."""

    def part(piece):
        return np.einsum("ij,ij->j", A[piece], B[piece])

    return sum(tile_map(part, _pieces(A), n_jobs), np.zeros(A.shape[1]))


def add_multiple(A: np.ndarray, factor: np.ndarray | float, B: np.ndarray, n_jobs=None) -> None:
    """A += factor * B, one factor a column or for all of them."""
    from rkhs.compute import _loops

    factor = _one_a_column(factor, A)
    for _ in tile_map(
        lambda piece: _loops.add_multiple(A[piece], factor, B[piece]), _pieces(A), n_jobs
    ):
        pass


def multiply_and_add(A: np.ndarray, factor: np.ndarray | float, B: np.ndarray, n_jobs=None) -> None:
    """A = factor * A + B, one factor a column or for all of them."""
    from rkhs.compute import _loops

    factor = _one_a_column(factor, A)
    for _ in tile_map(
        lambda piece: _loops.multiply_and_add(A[piece], factor, B[piece]), _pieces(A), n_jobs
    ):
        pass
