"""Products of float32 tiles with float64 vectors, summed in float64."""

import threading

import numpy as np

_local = threading.local()


def _widened(tile):
    """A float64 copy of a tile in this thread's own buffer, valid until the next."""
    size = tile.size
    buffer = getattr(_local, "buffer", None)
    if buffer is None or buffer.size < size:
        buffer = _local.buffer = np.empty(size)
    wide = buffer[:size].reshape(tile.shape)
    np.copyto(wide, tile)
    return wide


def times(tile: np.ndarray, W: np.ndarray) -> np.ndarray:
    """tile @ W in the precision of W."""
    if tile.dtype == W.dtype:
        return tile @ W
    if W.shape[1] > 1:
        return _widened(tile) @ W
    from rkhs.compute import _loops

    out = np.zeros((len(tile), 1))
    _loops.times_wide(np.ascontiguousarray(tile), np.ascontiguousarray(W[:, 0]), out[:, 0])
    return out


def transposed_times(tile: np.ndarray, V: np.ndarray) -> np.ndarray:
    """tile.T @ V in the precision of V."""
    if tile.dtype == V.dtype:
        return tile.T @ V
    if V.shape[1] > 1:
        return _widened(tile).T @ V
    from rkhs.compute import _loops

    out = np.zeros((tile.shape[1], 1))
    _loops.transposed_times_wide(
        np.ascontiguousarray(tile), np.ascontiguousarray(V[:, 0]), out[:, 0]
    )
    return out
