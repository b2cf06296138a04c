"""Pairwise distances of two blocks of rows, the inner product of every kernel tile."""

import numpy as np
from numba import njit

# Half squared norms beyond this lose too much in float32: eps * norm is the error of the
# squared distance. Such tiles are computed in float64.
_LARGEST_FLOAT32_NORM = 2e3

# No flag that assumes finite values: products of many columns may overflow to infinity.
_fast = njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"}
)


@_fast
def _combine(products, left, right, factor):
    zero = products.dtype.type(0.0)
    two = products.dtype.type(2.0)
    for i in range(products.shape[0]):
        row = products[i]
        shift = left[i]
        for j in range(row.shape[0]):
            row[j] = factor * max(two * (shift + right[j] - row[j]), zero)


def squared_distances(X, half_x, Y, half_y, factor, out) -> None:
    """Write ``factor * ||x - y||^2`` for all pairs to `out`, given half squared norms."""
    largest = max(half_x.max(initial=0.0), half_y.max(initial=0.0))
    if out.dtype == np.float32 and largest > _LARGEST_FLOAT32_NORM:
        wide = np.empty(out.shape)
        X, Y = X.astype(np.float64), Y.astype(np.float64)
        halves = (0.5 * np.einsum("ij,ij->i", Z, Z) for Z in (X, Y))
        np.matmul(X, Y.T, out=wide)
        _combine(wide, *halves, np.float64(factor))
        out[...] = wide
        return
    np.matmul(X, Y.T, out=out)
    _combine(out, half_x, half_y, out.dtype.type(factor))


@_fast
def _l1(X, columns, out):
    # columns: (columns of Y, rows of Y), so that the inner loop runs over adjacent memory.
    for i in range(X.shape[0]):
        row = out[i]
        row[:] = 0.0
        for c in range(columns.shape[0]):
            x = X[i, c]
            column = columns[c]
            for j in range(column.shape[0]):
                row[j] += abs(x - column[j])


@_fast
def _one_plus_square(X, columns, out):
    one = out.dtype.type(1.0)
    for i in range(X.shape[0]):
        row = out[i]
        row[:] = 1.0
        for c in range(columns.shape[0]):
            x = X[i, c]
            column = columns[c]
            for j in range(column.shape[0]):
                difference = x - column[j]
                row[j] *= one + difference * difference


def l1_distances(X, Y, out) -> None:
    """Write ``sum_c |x_c - y_c|`` for all pairs to `out`."""
    _l1(X, np.ascontiguousarray(Y.T), out)


def one_plus_square_products(X, Y, out) -> None:
    """Write ``prod_c (1 + (x_c - y_c)^2)`` for all pairs to `out` (infinity if it overflows)."""
    _one_plus_square(X, np.ascontiguousarray(Y.T), out)
