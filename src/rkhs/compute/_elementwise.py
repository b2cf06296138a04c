"""Cosine and exponential of a tile, in place."""

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


def exponential(tile: np.ndarray) -> None:
    """Replace each entry by its exponential (in float32: 2**-126 where that underflows)."""
    if tile.dtype == np.float32:
        from rkhs.compute import _loops

        _loops.exponential_f32(tile)
    else:
        np.exp(tile, out=tile)
