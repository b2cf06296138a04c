"""Cosine, sine, exponential and Matérn's function of a tile."""

import numpy as np


def cosines(turns: np.ndarray, scale: float, columns: slice = slice(None)) -> None:
    """Replace each entry u (an angle in whole turns) by ``scale * cos(2 pi u)``.

    Only in some columns if they are given: a loop over a view of them would not vectorise.
    """
    if turns.dtype == np.float32:
        from rkhs.compute import _loops

        start, stop, _ = columns.indices(turns.shape[1])
        _loops.cosine_f32(turns, start, stop, np.float32(scale))
    else:
        part = turns[:, columns]
        part -= np.rint(part)
        part *= 2.0 * np.pi
        np.cos(part, out=part)
        part *= scale


def cosine_pairs(turns: np.ndarray, scale: float, out: np.ndarray, start: int = 0) -> None:
    """Write ``scale * cos(2 pi u)`` of each entry to `out`, and the sines to the right of them.

    They begin at column `start`.
    """
    count = turns.shape[1]
    if turns.dtype == np.float32:
        from rkhs.compute import _loops

        _loops.cosine_pairs_f32(turns, 0, count, np.float32(scale), out, start)
    else:
        angles = turns - np.rint(turns)
        angles *= 2.0 * np.pi
        np.multiply(np.cos(angles), scale, out=out[:, start : start + count])
        np.multiply(np.sin(angles), scale, out=out[:, start + count : start + 2 * count])


def exponential(tile: np.ndarray) -> None:
    """Replace each entry by its exponential (in float32: 2**-126 where that underflows)."""
    if tile.dtype == np.float32:
        from rkhs.compute import _loops

        _loops.exponential_f32(tile)
    else:
        np.exp(tile, out=tile)


def matern(tile: np.ndarray) -> None:
    """Replace each entry, s squared, by ``(1 + s) exp(-s)``."""
    if tile.dtype == np.float32:
        from rkhs.compute import _loops

        _loops.matern_f32(tile)
    else:
        np.sqrt(tile, out=tile)
        decay = np.exp(-tile)
        tile += 1.0
        tile *= decay
