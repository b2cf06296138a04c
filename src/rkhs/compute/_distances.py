"""Pairwise distances of two blocks of rows, the inner product of every kernel tile."""

import numpy as np

from rkhs.compute._elementwise import exponential

# Half squared norms beyond this lose too much in float32, where eps * norm is the error of
# the squared distance. Such rows are computed in float64. A long row against a short one
# needs no such care: their distance is long too.
_LARGEST_FLOAT32_NORM = 2e3
# Squared distances below this times eps times the norm are computed from differences.
_CLOSE = 1e3
_EPS32 = np.finfo(np.float32).eps


def squared_distances(X, half_x, Y, half_y, factor, out, refine=False) -> None:
    """Write ``factor * ||x - y||^2`` for all pairs to `out`, given half squared norms.

    With `refine`, pairs so close that norms minus product is mostly rounding are computed
    from their difference.
    """
    from rkhs.compute import _loops

    np.matmul(X, Y.T, out=out)
    _loops.combine(out, half_x, half_y, out.dtype.type(factor))
    _redo_long_rows(squared_distances, X, half_x, Y, out, factor)
    if refine:
        close = _CLOSE * np.finfo(out.dtype).eps
        _loops.refine(out, X, half_x, Y, half_y, out.dtype.type(factor), out.dtype.type(close))


def gaussians(X, half_x, Y, half_y, out) -> None:
    """Write ``exp(-||x - y||^2 / 2)`` for all pairs to `out`, given half squared norms."""
    from rkhs.compute import _loops

    if out.dtype == np.float32:
        np.matmul(X, Y.T, out=out)
        _loops.gaussian_f32(out, half_x, half_y)
        _redo_long_rows(gaussians, X, half_x, Y, out)
    else:
        squared_distances(X, half_x, Y, half_y, -0.5, out)
        exponential(out)


def exponential_distances(X, half_x, Y, half_y, out) -> None:
    """Write ``exp(-||x - y||)`` for all pairs to `out`, given half squared norms."""
    from rkhs.compute import _loops

    if out.dtype == np.float32:
        np.matmul(X, Y.T, out=out)
        _loops.exponential_distances_f32(out, half_x, half_y, X, Y, np.float32(_CLOSE * _EPS32))
        _redo_long_rows(exponential_distances, X, half_x, Y, out)
    else:
        squared_distances(X, half_x, Y, half_y, 1.0, out, refine=True)
        np.sqrt(out, out=out)
        np.negative(out, out=out)
        exponential(out)


def _redo_long_rows(function, X, half_x, Y, out, *arguments):
    """Overwrite the rows of `out` whose norm is too large for float32, through float64."""
    if out.dtype != np.float32:
        return
    long = half_x > _LARGEST_FLOAT32_NORM
    if not long.any():
        return
    X, Y = X[long].astype(np.float64), Y.astype(np.float64)
    half_x, half_y = (0.5 * np.einsum("ij,ij->i", Z, Z) for Z in (X, Y))
    wide = np.empty((len(X), len(Y)))
    function(X, half_x, Y, half_y, *arguments, wide)
    out[long] = wide


def l1_distances(X, Y, out) -> None:
    """Write ``sum_c |x_c - y_c|`` for all pairs to `out`."""
    from rkhs.compute import _loops

    _loops.l1(X, np.ascontiguousarray(Y.T), out)


def one_plus_square_products(X, Y, out) -> None:
    """Write ``prod_c (1 + (x_c - y_c)^2)`` for all pairs to `out` (infinity if it overflows)."""
    from rkhs.compute import _loops

    _loops.one_plus_square(X, np.ascontiguousarray(Y.T), out)
