"""Compiled sums over pairs of rows, column by column. Imported late, as all of Numba.

Tables stand on their side, a column in each row, and pairs are those of the lower triangle. The
distance in a column ends at its `cap`: infinity for numbers, 1 for codes of categories, of which
any two are one apart.
"""

import numpy as np
from numba import njit

from rkhs.compute._wide import wide

_fast = njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"}
)


@_fast
def metric(X, inverse, cap, squared, out):
    wide()
    # Row i of `out` up to its diagonal: the sum over columns of distances, or their squares.
    for i in range(X.shape[1]):
        row = out[i]
        for k in range(i):
            row[k] = np.float32(0.0)
        for c in range(X.shape[0]):
            column = X[c]
            here, limit, scale = column[i], cap[c], inverse[c]
            if squared:
                for k in range(i):
                    d = min(abs(column[k] - here), limit) * scale
                    row[k] += d * d
            else:
                for k in range(i):
                    row[k] += min(abs(column[k] - here), limit) * scale


@_fast
def metric_to(X, place, inverse, cap, squared, out):
    wide()
    # out[k] = the sum over columns of distances of rows k and `place`, or their squares.
    out[:] = np.float32(0.0)
    for c in range(X.shape[0]):
        column = X[c]
        here, limit, scale = column[place], cap[c], inverse[c]
        if squared:
            for k in range(out.shape[0]):
                d = min(abs(column[k] - here), limit) * scale
                out[k] += d * d
        else:
            for k in range(out.shape[0]):
                out[k] += min(abs(column[k] - here), limit) * scale


@_fast
def metric_sums(M, X, cap, squared, out):
    wide()
    # out[c] = sum over pairs of M times the distance in column c, or its square.
    for i in range(X.shape[1]):
        row = M[i]
        for c in range(X.shape[0]):
            column = X[c]
            here, limit = column[i], cap[c]
            total = np.float32(0.0)
            if squared:
                for k in range(i):
                    d = min(abs(column[k] - here), limit)
                    total += row[k] * (d * d)
            else:
                for k in range(i):
                    total += row[k] * min(abs(column[k] - here), limit)
            out[c] += total


@_fast
def mirror(A):
    # The upper triangle from the lower.
    for i in range(A.shape[0]):
        for k in range(i):
            A[k, i] = A[i, k]


@_fast
def multiply_by_difference(slope, A, left, right):
    wide()
    # slope times A - (left right^T + right left^T) / 2, in the lower triangle; an output a row.
    for i in range(A.shape[0]):
        row, other = slope[i], A[i]
        for m in range(left.shape[0]):
            a, b = 0.5 * left[m, i], 0.5 * right[m, i]
            x, y = left[m], right[m]
            for k in range(i):
                other[k] -= a * y[k] + b * x[k]
        for k in range(i):
            row[k] *= np.float32(other[k])
