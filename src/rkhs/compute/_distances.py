"""Pairwise distances of two blocks of rows, the inner product of every kernel tile."""

import numpy as np

from rkhs.compute._elementwise import exponential

# Half squared norms beyond this lose too much in float32: eps * norm is the error of the
# squared distance. Such tiles are computed in float64.
_LARGEST_FLOAT32_NORM = 2e3


def squared_distances(X, half_x, Y, half_y, factor, out, refine=False) -> None:
    """Write ``factor * ||x - y||^2`` for all pairs to `out`, given half squared norms.

    With `refine`, pairs so close that norms minus product is mostly rounding are computed
    from their difference.
    """
    from rkhs.compute import _loops

    if out.dtype == np.float32 and _too_long(half_x, half_y):
        wide = np.empty(out.shape)
        X, Y = X.astype(np.float64), Y.astype(np.float64)
        half_x, half_y = (0.5 * np.einsum("ij,ij->i", Z, Z) for Z in (X, Y))
        np.matmul(X, Y.T, out=wide)
        _loops.combine(wide, half_x, half_y, np.float64(factor))
        out[...] = wide
    else:
        np.matmul(X, Y.T, out=out)
        _loops.combine(out, half_x, half_y, out.dtype.type(factor))
    if refine:
        close = 1e3 * np.finfo(out.dtype).eps
        _loops.refine(out, X, half_x, Y, half_y, out.dtype.type(factor), out.dtype.type(close))


def gaussians(X, half_x, Y, half_y, out) -> None:
    """Write ``exp(-||x - y||^2 / 2)`` for all pairs to `out`, given half squared norms."""
    from rkhs.compute import _loops

    if out.dtype == np.float32 and not _too_long(half_x, half_y):
        np.matmul(X, Y.T, out=out)
        _loops.gaussian_f32(out, half_x, half_y)
    else:
        squared_distances(X, half_x, Y, half_y, -0.5, out)
        exponential(out)


def _too_long(half_x, half_y):
    return max(half_x.max(initial=0.0), half_y.max(initial=0.0)) > _LARGEST_FLOAT32_NORM


def l1_distances(X, Y, out) -> None:
    """Write ``sum_c |x_c - y_c|`` for all pairs to `out`."""
    from rkhs.compute import _loops

    _loops.l1(X, np.ascontiguousarray(Y.T), out)


def one_plus_square_products(X, Y, out) -> None:
    """Write ``prod_c (1 + (x_c - y_c)^2)`` for all pairs to `out` (infinity if it overflows)."""
    from rkhs.compute import _loops

    _loops.one_plus_square(X, np.ascontiguousarray(Y.T), out)
