"""Products of tiles with a few vectors, in the vectors' own precision.

BLAS is made for matrices with many columns, and knows no product of float32 with float64.
"""

import numpy as np

from rkhs.compute._elementwise import cosine_pairs
from rkhs.compute._threads import scratch

_FEW = 16  # vectors, up to which our own loops are faster than BLAS


def _loops_suit(tile, W):
    return 0 < W.shape[1] <= _FEW and tile.dtype.itemsize <= W.dtype.itemsize


def times(tile: np.ndarray, W: np.ndarray) -> np.ndarray:
    """tile @ W in the precision of W."""
    if not _loops_suit(tile, W):
        return tile @ W
    from rkhs.compute import _loops

    out = np.zeros((len(tile), W.shape[1]), W.dtype)
    _loops.times_few(np.ascontiguousarray(tile), np.ascontiguousarray(W.T), out)
    return out


def add_cosine_pairs_times(turns: np.ndarray, W: np.ndarray, out: np.ndarray) -> None:
    """Add [cos, sin](2 pi turns) @ W to `out`; the cosines are never stored whole."""
    if turns.dtype == np.float32 == W.dtype and W.shape[1] <= _FEW:
        from rkhs.compute import _loops

        _loops.cosine_pairs_times_few(turns, np.ascontiguousarray(W.T), out)
        return
    pairs = scratch("pairs", (len(turns), 2 * turns.shape[1]), turns.dtype)
    cosine_pairs(turns, 1.0, pairs)
    out += pairs @ W


def transposed_times(tile: np.ndarray, V: np.ndarray) -> np.ndarray:
    """tile.T @ V in the precision of V."""
    if not _loops_suit(tile, V):
        return tile.T @ V
    from rkhs.compute import _loops

    out = np.zeros((V.shape[1], tile.shape[1]), V.dtype)
    _loops.transposed_times_few(np.ascontiguousarray(tile), np.ascontiguousarray(V), out)
    return out.T


def gram_times(
    tile: np.ndarray, W: np.ndarray, scale: np.ndarray, beside: np.ndarray | None = None
) -> np.ndarray:
    """tile.T @ inner, inner = scale * (tile @ W + beside), in the precision of W.

    `scale` is one column or as W. `beside` becomes `inner`.
    """
    if not _loops_suit(tile, W):
        inner = times(tile, W)
        if beside is not None:
            inner += beside
        inner = (scale * inner).astype(W.dtype, copy=False)
        if beside is not None:
            beside[...] = inner
        return transposed_times(tile, inner)
    from rkhs.compute import _loops

    out = np.zeros((W.shape[1], W.shape[0]), W.dtype)
    _loops.gram_times_few(
        np.ascontiguousarray(tile),
        np.ascontiguousarray(W.T),
        np.ascontiguousarray(scale, W.dtype),
        np.empty((0, 1), tile.dtype) if beside is None else beside,
        out,
    )
    return out.T


def gather_columns(tile: np.ndarray, columns: np.ndarray, first: int, out: np.ndarray) -> None:
    """Write the columns of a tile to `out`, where `first` is the number of the tile's first."""
    from rkhs.compute import _loops

    _loops.gather_columns(tile, columns, first, out)
