"""Cosine and exponential of a tile, in place."""

import numpy as np


def cosines(turns: np.ndarray, scale: float) -> None:
    """Replace each entry u (an angle in whole turns) by ``scale * cos(2 pi u)``."""
    if turns.dtype == np.float32:
        from rkhs.compute import _loops

        _loops.cosine_f32(turns, np.float32(scale))
    else:
        turns -= np.rint(turns)
        turns *= 2.0 * np.pi
        np.cos(turns, out=turns)
        turns *= scale


def exponential(tile: np.ndarray) -> None:
    """Replace each entry by its exponential (in float32: 2**-126 where that underflows)."""
    if tile.dtype == np.float32:
        from rkhs.compute import _loops

        _loops.exponential_f32(tile)
    else:
        np.exp(tile, out=tile)
