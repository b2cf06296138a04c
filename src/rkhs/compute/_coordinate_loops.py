"""The compiled loops of coordinate descent. Imported late: Numba takes its time.

Arrays of rows, bins or columns have one column an output. All loops run without the
interpreter's lock.
"""

import numpy as np
from numba import njit

_fast = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})


@_fast
def sum_over_bins(bins, v, out):
    """out[bins[i]] += v[i]."""
    if v.shape[1] == 1:
        source, target = v[:, 0], out[:, 0]
        for i in range(bins.shape[0]):
            target[bins[i]] += source[i]
        return
    for i in range(bins.shape[0]):
        b = bins[i]
        for c in range(v.shape[1]):
            out[b, c] += v[i, c]


@_fast
def add_of_bins(bins, delta, f):
    """f[i] += delta[bins[i]]."""
    if f.shape[1] == 1:
        source, target = delta[:, 0], f[:, 0]
        for i in range(bins.shape[0]):
            target[i] += source[bins[i]]
        return
    for i in range(bins.shape[0]):
        b = bins[i]
        for c in range(f.shape[1]):
            f[i, c] += delta[b, c]


@_fast
def sort_by_bin(bins, pointers, entries, position):
    """Rows of each known bin next to each other in `entries` from `position` on; where they end.

    `pointers` gets the place of each bin's first row; bins beyond its length are unknown.
    """
    n_bins = pointers.shape[0]
    places = np.zeros(n_bins, np.int64)
    for i in range(bins.shape[0]):
        if bins[i] < n_bins:
            places[bins[i]] += 1
    for b in range(n_bins):
        count = places[b]
        pointers[b] = places[b] = position
        position += count
    for i in range(bins.shape[0]):
        b = bins[i]
        if b < n_bins:
            entries[places[b]] = i
            places[b] += 1
    return position


@_fast
def sum_over_columns(pointers, entries, columns, v, out):
    """out[k] = sum of v over the rows of column columns[k]."""
    for k in range(columns.shape[0]):
        for e in range(pointers[columns[k]], pointers[columns[k] + 1]):
            for c in range(v.shape[1]):
                out[k, c] += v[entries[e], c]


@_fast
def add_of_columns(pointers, entries, columns, delta, f):
    """f[i] += delta[k] for the rows i of column columns[k]; the rows that changed."""
    moved = np.zeros(columns.shape[0], np.bool_)
    count = 0
    for k in range(columns.shape[0]):
        for c in range(delta.shape[1]):
            moved[k] |= delta[k, c] != 0.0
        if moved[k]:
            count += pointers[columns[k] + 1] - pointers[columns[k]]
    rows = np.empty(count, np.int64)
    count = 0
    for k in range(columns.shape[0]):
        if moved[k]:
            for e in range(pointers[columns[k]], pointers[columns[k] + 1]):
                i = np.int64(entries[e])
                for c in range(f.shape[1]):
                    f[i, c] += delta[k, c]
                rows[count] = i
                count += 1
    return rows


@njit(inline="always")
def _minimiser(slope, w, curvature, alpha, sparse):
    """Of slope (v - w) + curvature (v - w)^2 / 2 + alpha |v| (sparse), or + alpha v^2 / 2."""
    pull = curvature * w - slope
    if not sparse:
        return pull / (curvature + alpha)
    if pull > alpha:
        return (pull - alpha) / curvature
    if pull < -alpha:
        return (pull + alpha) / curvature
    return 0.0


@njit(inline="always")
def _violation(slope, w, alpha, sparse):
    """How far zero is from the subgradients."""
    if not sparse:
        return abs(slope + alpha * w)
    if w == 0.0:
        return max(abs(slope) - alpha, 0.0)
    return abs(slope + alpha) if w > 0.0 else abs(slope - alpha)


@_fast
def shrink(gradient, w, curvature, alpha, sparse, out):
    """The minimiser of each coordinate alone, to `out`; the largest violation at w.

    `curvature` has one column, or one an output.
    """
    largest = 0.0
    for j in range(w.shape[0]):
        for c in range(w.shape[1]):
            bend = curvature[j, c if curvature.shape[1] > 1 else 0]
            out[j, c] = _minimiser(gradient[j, c], w[j, c], bend, alpha, sparse)
            largest = max(largest, _violation(gradient[j, c], w[j, c], alpha, sparse))
    return largest


@_fast
def descend(gradient, w, hessian, alpha, sparse, precision, max_sweeps, out):
    """Minimise a quadratic of some coordinates and its penalty, one coordinate at a time.

    Starts from w, writes where it ends to `out`, and returns the largest violation at w. It
    ends when a sweep meets no violation larger than `precision` times that one.
    """
    largest = 0.0
    for j in range(w.shape[0]):
        for c in range(w.shape[1]):
            out[j, c] = w[j, c]
            largest = max(largest, _violation(gradient[j, c], w[j, c], alpha, sparse))
    slope = gradient.copy()
    for _ in range(max_sweeps):
        worst = 0.0
        for j in range(w.shape[0]):
            for c in range(w.shape[1]):
                worst = max(worst, _violation(slope[j, c], out[j, c], alpha, sparse))
                new = _minimiser(slope[j, c], out[j, c], hessian[j, j], alpha, sparse)
                change = new - out[j, c]
                if change != 0.0:
                    out[j, c] = new
                    for k in range(w.shape[0]):
                        slope[k, c] += hessian[j, k] * change
        if worst <= precision * largest:
            break
    return largest
