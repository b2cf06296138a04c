"""Sums and updates of long vectors in place, on all cores, in one pass each.

Arrays are (length, outputs); sums are the same for any number of threads.
"""

import numpy as np

from rkhs.compute._threads import run_tiles, slices

_LENGTH = 2**17  # of the pieces that threads take
_FEWEST = 4  # pieces that are worth waking a thread for


def _pieces(array):
    return slices(len(array), max(1, _LENGTH // array.shape[1]))


def _run(function, tiles, n_jobs):
    run_tiles(function, tiles, n_jobs if len(tiles) >= _FEWEST else 1)


def _one_a_column(factor, A):
    return np.broadcast_to(np.asarray(factor, np.float64), A.shape[1:]).copy()


def fill(A: np.ndarray, values, n_jobs=None) -> None:
    """A[...] = values, an array of A's shape or a number."""

    def part(piece):
        A[piece] = values[piece] if isinstance(values, np.ndarray) else values

    _run(part, _pieces(A), n_jobs)


def multiply(A: np.ndarray, B: np.ndarray, out: np.ndarray, n_jobs=None) -> None:
    """out = A * B, where A may have a single column."""

    def part(piece):
        np.multiply(A[piece], B[piece], out=out[piece])

    _run(part, _pieces(out), n_jobs)


def dots(A: np.ndarray, B: np.ndarray, n_jobs=None) -> np.ndarray:
    """Inner product of each column of A with that of B."""
    parts = np.empty((len(_pieces(A)), A.shape[1]))
    _each_piece(lambda piece: np.einsum("ij,ij->j", A[piece], B[piece]), A, parts, n_jobs)
    return parts.sum(axis=0)


def absolute_sum(A: np.ndarray, n_jobs=None) -> float:
    """Sum of the absolute values in all columns of A."""
    from rkhs.compute import _loops

    parts = np.empty(len(_pieces(A)))
    _each_piece(lambda piece: _loops.absolute_sum(A[piece].ravel()), A, parts, n_jobs)
    return float(parts.sum())


def _each_piece(function, A, parts, n_jobs):
    """A function of each piece of A, to `parts` in their order."""
    pieces = _pieces(A)

    def part(number):
        parts[number] = function(pieces[number])

    _run(part, range(len(pieces)), n_jobs)


def add_multiple(A: np.ndarray, factor: np.ndarray | float, B: np.ndarray, n_jobs=None) -> None:
    """A += factor * B, one factor a column or for all of them."""
    from rkhs.compute import _loops

    factor = _one_a_column(factor, A)
    _run(lambda piece: _loops.add_multiple(A[piece], factor, B[piece]), _pieces(A), n_jobs)


def multiply_and_add(A: np.ndarray, factor: np.ndarray | float, B: np.ndarray, n_jobs=None) -> None:
    """A = factor * A + B, one factor a column or for all of them."""
    from rkhs.compute import _loops

    factor = _one_a_column(factor, A)
    _run(lambda piece: _loops.multiply_and_add(A[piece], factor, B[piece]), _pieces(A), n_jobs)
