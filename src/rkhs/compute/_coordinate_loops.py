"""The compiled loops of coordinate descent. Imported late: Numba takes its time.

Arrays of rows, bins or columns have one column an output. All loops run without the
interpreter's lock.
"""

import numpy as np
from numba import njit

from rkhs.compute._team import claim, finish, numbers16, numbers32, wait

_fast = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})


@njit(inline="always")
def _minimiser(slope, w, curvature, alpha, sparse):
    """Of slope (v - w) + curvature (v - w)^2 / 2 + alpha |v| (sparse), or + alpha v^2 / 2."""
    pull = curvature * w - slope
    if not curvature + alpha > 0.0:  # a bin whose rows weigh nothing
        return w
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
def _add_of_bins(bins, change, f):
    """f[i] += change[bins[i]]."""
    if f.shape[1] == 1:
        source, target = change[:, 0], f[:, 0]
        for i in range(bins.shape[0]):
            target[i] += source[bins[i]]
        return
    for i in range(bins.shape[0]):
        b = bins[i]
        for c in range(f.shape[1]):
            f[i, c] += change[b, c]


@_fast
def _sum_rows(bins, v, out):
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
def _sum_slopes(bins, slope, bend, shift, out):
    """out[bins[i]] += slope[i] + bend[i] * shift[i]."""
    if shift.shape[1] == 1:
        s, h, d, target = slope[:, 0], bend[:, 0], shift[:, 0], out[:, 0]
        for i in range(bins.shape[0]):
            target[bins[i]] += s[i] + h[i] * d[i]
        return
    for i in range(bins.shape[0]):
        b = bins[i]
        for c in range(shift.shape[1]):
            out[b, c] += slope[i, c] + bend[i, c if bend.shape[1] > 1 else 0] * shift[i, c]


@_fast
def add_of_support(numbers, piece, starts, value, support, delta, f):
    """f += Z delta on a piece of the rows, for a change of some coordinates.

    `numbers` are the addresses, kinds and lengths of the pieces' bin numbers; `support` the
    coordinates, growing, the grids that have some of them, and where those of each begin.
    """
    coordinates, grids, runs = support
    addresses, wide, bounds = numbers
    length = bounds[piece + 1] - bounds[piece]
    change = np.zeros((_largest(starts, grids) + 1, delta.shape[1]))
    for k in range(grids.shape[0]):
        g = grids[k]
        for e in range(runs[k], runs[k + 1]):
            for c in range(delta.shape[1]):  # a row at once would be an array of its own
                change[coordinates[e] - starts[g], c] = value * delta[e, c]
        if wide[piece, g]:
            _add_of_bins(numbers32(addresses[piece, g], length), change, f)
        else:
            _add_of_bins(numbers16(addresses[piece, g], length), change, f)
        for e in range(runs[k], runs[k + 1]):
            for c in range(delta.shape[1]):
                change[coordinates[e] - starts[g], c] = 0.0


@_fast
def sum_over_support(numbers, first, last, starts, value, support, v, out):
    """out = Z.T v at the coordinates in some grids of the support, numbers `first` to `last`."""
    coordinates, grids, runs = support
    addresses, wide, bounds = numbers
    sums = np.empty((_largest(starts, grids[first:last]) + 1, v.shape[1]))
    for k in range(first, last):
        g = grids[k]
        sums[: starts[g + 1] - starts[g] + 1] = 0.0
        for piece in range(bounds.shape[0] - 1):
            part = v[bounds[piece] : bounds[piece + 1]]
            if wide[piece, g]:
                _sum_rows(numbers32(addresses[piece, g], part.shape[0]), part, sums)
            else:
                _sum_rows(numbers16(addresses[piece, g], part.shape[0]), part, sums)
        for e in range(runs[k], runs[k + 1]):
            for c in range(v.shape[1]):
                out[e, c] = value * sums[coordinates[e] - starts[g], c]


@njit(inline="always")
def _largest(starts, grids):
    """The number of bins of the largest of some grids."""
    largest = 0
    for g in grids:
        largest = max(largest, starts[g + 1] - starts[g])
    return largest


@_fast
def sweep(team, order, numbers, starts, value, rows, coef, curvature, penalty, rooms, found):
    """Minimise a quadratic over the bins of one grid after the other, together with others.

    Every thread that helps calls this with the same arguments but for its number; the result
    does not depend on how many do. By turns, the stages of the work are a grid's sums of slopes
    over pieces of rows, and the minimisation over parts of its bins.

    Parameters
    ----------
    team : number of this thread, that of all, and counters of what was claimed and done: zeros
    order : the grids to visit
    numbers : addresses, kinds and bounds of the pieces' bin numbers
    rows : slope and bend of the quadratic at each row, and how far the response has moved
    penalty : alpha, and whether it is that of absolute values
    rooms : for the sums of each piece and, last, the change of the responses
    found : the largest violation of optimality in each part of each visited grid
    """
    thread, n_threads, claims, done = team
    n_pieces = claims.shape[1]
    first = thread * n_pieces // n_threads
    for stage in range(2 * order.shape[0] + 1):
        piece = claim(claims, stage, first)
        if piece >= 0 and stage > 0:
            wait(done, stage - 1, n_pieces)
        while piece >= 0:
            visit = stage // 2
            if stage % 2 == 1:
                found[visit, piece] = _minimise_bins(
                    order[visit], piece, starts, value, coef, curvature, penalty, rooms
                )
            else:
                if visit > 0:
                    _move_piece(order[visit - 1], piece, numbers, rooms[n_pieces], rows)
                if visit < order.shape[0]:
                    g = order[visit]
                    sums = rooms[piece, : starts[g + 1] - starts[g] + 1]
                    _sum_piece(g, piece, numbers, rows, sums)
            finish(done, stage)
            piece = claim(claims, stage, first)


@_fast
def _move_piece(g, piece, numbers, change, rows):
    """Move the responses of a piece of the rows along the change of a grid."""
    addresses, wide, bounds = numbers
    shift = rows[2][bounds[piece] : bounds[piece + 1]]
    if wide[piece, g]:
        _add_of_bins(numbers32(addresses[piece, g], shift.shape[0]), change, shift)
    else:
        _add_of_bins(numbers16(addresses[piece, g], shift.shape[0]), change, shift)


@_fast
def _sum_piece(g, piece, numbers, rows, out):
    """Sums of the slopes of a piece of the rows over the bins of a grid, and its unknown bin."""
    out[:] = 0.0  # by the thread that adds to them, not by those that read them
    addresses, wide, bounds = numbers
    first, last = bounds[piece], bounds[piece + 1]
    slope, bend, shift = rows[0][first:last], rows[1][first:last], rows[2][first:last]
    if wide[piece, g]:
        _sum_slopes(numbers32(addresses[piece, g], last - first), slope, bend, shift, out)
    else:
        _sum_slopes(numbers16(addresses[piece, g], last - first), slope, bend, shift, out)


@njit(inline="always")
def _minimise_one(j, place, value, coef, curvature, alpha, sparse, rooms):
    """Minimise over a coordinate, whose sums and change have a place in `rooms`; its violation."""
    n_parts = rooms.shape[0] - 1
    worst = 0.0
    for c in range(coef.shape[1]):
        slope = 0.0
        for p in range(n_parts):
            slope += rooms[p, place, c]
        slope *= value
        w = coef[j, c]
        bend = curvature[j, c if curvature.shape[1] > 1 else 0]
        worst = max(worst, _violation(slope, w, alpha, sparse))
        coef[j, c] = _minimiser(slope, w, bend, alpha, sparse)
        rooms[n_parts, place, c] = value * (coef[j, c] - w)
    return worst


@_fast
def _minimise_bins(g, part, starts, value, coef, curvature, penalty, rooms):
    """Minimise over a part of a grid's bins, each alone; the largest violation met."""
    alpha, sparse = penalty
    n_parts = rooms.shape[0] - 1
    change = rooms[n_parts]
    start, size = starts[g], starts[g + 1] - starts[g]
    worst = 0.0
    for b in range(size * part // n_parts, size * (part + 1) // n_parts):
        worst = max(
            worst, _minimise_one(start + b, b, value, coef, curvature, alpha, sparse, rooms)
        )
    if part == n_parts - 1:
        change[size] = 0.0  # rows of unknown bins, numbered after the last, do not change
    return worst


@_fast
def support_moment(team, numbers, starts, value, grids, places, bend, n_old, edges, lists, out):
    """Z.T diag(bend) Z on a support, together with others: its lower triangle.

    By turns, the stages are the lists of a run of rows' places in the support, and the
    additions to runs of rows of the result, which begin at `edges`.

    Parameters
    ----------
    team : number of this thread, that of all, and counters of what was claimed and done: zeros
    grids : those with bins in the support
    places : where each bin stands in the support, -1 for the others; from `n_old` on, places
        grow with the number of the bin, and rows before are known already
    lists : room for the places of some rows before `n_old`, and for the others
    """
    thread, _, claims, done = team
    addresses, wide, bounds = numbers
    old, new, n_olds, n_news = lists
    n_parts = claims.shape[1]
    stage = 0
    for piece in range(bounds.shape[0] - 1):
        for begin in range(bounds[piece], bounds[piece + 1], old.shape[0]):
            length = min(old.shape[0], bounds[piece + 1] - begin)
            skipped = begin - bounds[piece]
            part = claim(claims, stage, thread)
            if part >= 0 and stage > 0:
                wait(done, stage - 1, n_parts)
            while part >= 0:
                rows = slice(length * part // n_parts, length * (part + 1) // n_parts)
                n_olds[rows] = 0
                n_news[rows] = 0
                here = old[rows], new[rows], n_olds[rows], n_news[rows]
                for g in grids:
                    ends = places[starts[g] : starts[g + 1]]
                    if wide[piece, g]:
                        bins = numbers32(addresses[piece, g], skipped + length)[skipped:]
                        _list_places(bins[rows], ends, n_old, *here)
                    else:
                        bins16 = numbers16(addresses[piece, g], skipped + length)[skipped:]
                        _list_places(bins16[rows], ends, n_old, *here)
                finish(done, stage)
                part = claim(claims, stage, thread)
            stage += 1
            part = claim(claims, stage, thread)
            if part >= 0:
                wait(done, stage - 1, n_parts)
            while part >= 0:
                for i in range(length):
                    h = value * value * bend[begin + i]
                    for x in range(n_news[i]):
                        a = new[i, x]
                        if a < edges[part]:
                            continue
                        if a >= edges[part + 1]:
                            break
                        row = out[a]
                        for y in range(n_olds[i]):
                            row[old[i, y]] += h
                        for y in range(x + 1):
                            row[new[i, y]] += h
                finish(done, stage)
                part = claim(claims, stage, thread)
            stage += 1


@_fast
def _list_places(bins, places, n_old, old, new, n_olds, n_news):
    """Append to one of each row's lists the place of its bin, if it has one.

    What is not kept is written all the same, and overwritten next: which it is no one foresees.
    """
    n_bins = places.shape[0]
    for i in range(bins.shape[0]):
        if bins[i] < n_bins:
            place = places[bins[i]]
            new[i, n_news[i]] = place
            n_news[i] += place >= n_old
            if n_old > 0:
                old[i, n_olds[i]] = place
                n_olds[i] += (place >= 0) & (place < n_old)


@_fast
def random_sweep(team, order, size, lists, value, rows, coef, curvature, penalty, rooms, found):
    """As `sweep`, for coordinates in a given order, so many of them at once.

    Parameters
    ----------
    team, value, rows, penalty, rooms, found : as for `sweep`
    order : the coordinates
    size : how many move at once
    lists : where the rows of each coordinate begin, for each piece; the rows, by their number in
        the piece; and where pieces begin
    """
    thread, n_threads, claims, done = team
    n_pieces = claims.shape[1]
    first = thread * n_pieces // n_threads
    n_batches = -(-order.shape[0] // size)
    for stage in range(2 * n_batches + 1):
        piece = claim(claims, stage, first)
        if piece >= 0 and stage > 0:
            wait(done, stage - 1, n_pieces)
        while piece >= 0:
            visit = stage // 2
            batch = order[visit * size : (visit + 1) * size]
            if stage % 2 == 1:
                found[visit, piece] = _minimise_batch(
                    batch, piece, value, coef, curvature, penalty, rooms
                )
            else:
                if visit > 0:
                    last = order[(visit - 1) * size : visit * size]
                    _move_by_list(last, piece, lists, rooms[n_pieces], rows)
                if visit < n_batches:
                    _sum_by_list(batch, piece, lists, rows, rooms[piece])
            finish(done, stage)
            piece = claim(claims, stage, first)


@_fast
def _move_by_list(batch, piece, lists, change, rows):
    """Move the responses of a piece of the rows along the changes of some coordinates."""
    pointers, entries, bounds = lists
    shift = rows[2][bounds[piece] : bounds[piece + 1]]
    for k in range(batch.shape[0]):
        j = batch[k]
        for c in range(shift.shape[1]):
            step = change[k, c]
            if step != 0.0:
                for e in range(pointers[piece, j], pointers[piece, j + 1]):
                    shift[entries[e], c] += step


@_fast
def _sum_by_list(batch, piece, lists, rows, out):
    """Sums of the slopes of a piece of the rows over some coordinates."""
    pointers, entries, bounds = lists
    first, last = bounds[piece], bounds[piece + 1]
    slope, bend, shift = rows[0][first:last], rows[1][first:last], rows[2][first:last]
    for k in range(batch.shape[0]):
        j = batch[k]
        for c in range(shift.shape[1]):
            h = c if bend.shape[1] > 1 else 0
            total = 0.0
            for e in range(pointers[piece, j], pointers[piece, j + 1]):
                i = entries[e]
                total += slope[i, c] + bend[i, h] * shift[i, c]
            out[k, c] = total


@_fast
def _minimise_batch(batch, part, value, coef, curvature, penalty, rooms):
    """Minimise over a part of some coordinates, each alone; the largest violation met."""
    alpha, sparse = penalty
    n_parts = rooms.shape[0] - 1
    size, worst = batch.shape[0], 0.0
    for k in range(size * part // n_parts, size * (part + 1) // n_parts):
        worst = max(worst, _minimise_one(batch[k], k, value, coef, curvature, alpha, sparse, rooms))
    return worst


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
