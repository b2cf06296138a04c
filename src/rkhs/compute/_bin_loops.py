"""The compiled loops of random binning. Imported late: Numba takes its time.

A grid cuts each column into bins of one width; the bin numbers of a row's columns are hashed
to one 64-bit key, and a table per grid turns keys into consecutive bin numbers. All loops run
without the interpreter's lock.
"""

import numpy as np
from numba import njit

_fast = njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"}
)
# Nothing is fused here: bin numbers are the same on every machine, and with NumPy.
_exact = njit(cache=True, nogil=True, error_model="numpy")
_EMPTY = np.uint32(0xFFFFFFFF)
_TILE = 2048  # rows whose two hashes stay in the innermost cache
_NEAR_CELLS = 2**17  # whose sums stay in a core's own cache
_FEW_CELLS = 2048  # of a grid, so few that neighbouring grids' sums share cache lines often


@njit(inline="always")
def _bin(value, inverse_width, offset):
    return np.uint32(np.int32(np.floor(value * inverse_width + offset)))


@_exact
def grid_keys(values, low, high, inverse_width, offset, first, second, keys):
    """Keys of dense columns, (columns, rows), in some grids: two linear 32-bit hashes of the bins.

    A column whose smallest and largest values, `low` and `high`, share a bin costs nothing.
    """
    n_columns, n_rows = values.shape
    n_grids = keys.shape[0]
    cut = np.empty((n_grids, n_columns), np.bool_)
    begin = np.zeros((n_grids, 2), np.uint32)
    for g in range(n_grids):
        for c in range(n_columns):
            bin_number = _bin(low[c], inverse_width[g, c], offset[g, c])
            cut[g, c] = bin_number != _bin(high[c], inverse_width[g, c], offset[g, c])
            if not cut[g, c]:
                begin[g, 0] += bin_number * first[g, c]
                begin[g, 1] += bin_number * second[g, c]
    one = np.empty(_TILE, np.uint32)
    other = np.empty(_TILE, np.uint32)
    for start in range(0, n_rows, _TILE):
        stop = min(start + _TILE, n_rows)
        for g in range(n_grids):
            one[:] = begin[g, 0]
            other[:] = begin[g, 1]
            for c in range(n_columns):
                if not cut[g, c]:
                    continue
                column = values[c, start:stop]
                scale, shift = inverse_width[g, c], offset[g, c]
                a, b = first[g, c], second[g, c]
                for i in range(column.shape[0]):
                    bin_number = _bin(column[i], scale, shift)
                    one[i] += bin_number * a
                    other[i] += bin_number * b
            part = keys[g, start:stop]
            for i in range(part.shape[0]):
                part[i] = (np.uint64(other[i]) << np.uint64(32)) | np.uint64(one[i])


@_fast
def add_entries(keys, starts, entries, contribution):
    """Add what each row's entries contribute to its key; entries are numbers of items."""
    for i in range(keys.shape[0]):
        total = keys[i]
        for e in range(starts[i], starts[i + 1]):
            total += contribution[entries[e]]
        keys[i] = total


@_fast
def z_order(values, low, inverse_width, level, column, codes):
    """Codes that sort rows by where they lie: bits of the columns' coordinates, coarse first.

    Bit j of a code is bit `level[j]` of the coordinate of `column[j]`, counted in bin widths.
    """
    for i in range(values.shape[1]):
        code = codes[i]
        for j in range(level.shape[0]):
            c = column[j]
            place = np.uint64((values[c, i] - low[c]) * inverse_width[c])
            code = (code << np.uint64(1)) | ((place >> np.uint64(level[j])) & np.uint64(1))
        codes[i] = code


@_fast
def add_hashes(bits, hashes):
    """Mix what each row holds, (columns, rows), into its hash."""
    for c in range(bits.shape[0]):
        for i in range(hashes.shape[0]):
            mixed = (hashes[i] ^ np.uint64(bits[c, i])) * np.uint64(0x9E3779B97F4A7C15)
            hashes[i] = mixed ^ (mixed >> np.uint64(31))


@njit(inline="always")
def _slot(key, shift):
    # Keys are linear in the bin numbers: the multiplication spreads them over the table.
    key ^= key >> np.uint64(29)
    return np.int64((key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(shift))


@njit(inline="always")
def _probe(key, table, shift, known):
    """Where a key stands in the table, or the empty place for it, and what is there."""
    mask = table.shape[0] - 1
    slot = _slot(key, shift)
    number = table[slot]
    while number != _EMPTY and known[number] != key:
        slot = (slot + 1) & mask
        number = table[slot]
    return slot, number


@_fast
def insert(keys, table, shift, known, n_known, start, bins):
    """Number keys from `start` on in order of first appearance; where it had to stop.

    It stops when half of the table is taken: the caller makes a larger one.
    """
    largest = min(known.shape[0], table.shape[0] // 2)
    for i in range(start, keys.shape[0]):
        slot, number = _probe(keys[i], table, shift, known)
        if number == _EMPTY:
            if n_known >= largest:
                return i, n_known
            number = np.uint32(n_known)
            table[slot] = number
            known[n_known] = keys[i]
            n_known += 1
        bins[i] = number
    return keys.shape[0], n_known


@_fast
def fill_table(known, table, shift):
    """Enter keys, all different, into an empty table."""
    mask = table.shape[0] - 1
    for number in range(known.shape[0]):
        slot = _slot(known[number], shift)
        while table[slot] != _EMPTY:
            slot = (slot + 1) & mask
        table[slot] = np.uint32(number)


@_fast
def look_up(keys, table, shift, known, bins):
    """Numbers of keys; a key that is not known gets the number after the last."""
    missing = np.uint32(known.shape[0])
    for i in range(keys.shape[0]):
        _, number = _probe(keys[i], table, shift, known)
        bins[i] = missing if number == _EMPTY else number


@njit(inline="always")
def _at_once(starts, stops, g, n_grids, most):
    """How many grids from `g` on a loop takes at once: eight, four, or two where cells are many.

    More of them wait less for each other, but what they have in their cells must stay in cache.
    """
    count, cells, largest = 1, 0, 0
    for k in range(g, min(g + most, n_grids)):
        size = stops[k] - starts[k]
        cells, largest = cells + size, max(largest, size)
        if k == g + 1 or (k == g + 3 and cells <= _NEAR_CELLS):
            count = k - g + 1
        if k == g + 7 and largest <= _FEW_CELLS:
            count = 8
    return count


@_fast
def gather_one(bins, starts, stops, w, out, first):
    """out[i] += sum over grids of w[starts[g] + bins[g, first + i]]."""
    n_grids, n_rows = bins.shape[0], out.shape[0]
    last = first + n_rows
    g = 0
    while g < n_grids:
        count = _at_once(starts, stops, g, n_grids, 4)
        b0, w0 = bins[g, first:last], w[starts[g] :]
        if count == 1:
            for i in range(n_rows):
                out[i] += w0[b0[i]]
        else:
            b1, w1 = bins[g + 1, first:last], w[starts[g + 1] :]
        if count == 2:
            for i in range(n_rows):
                out[i] += w0[b0[i]] + w1[b1[i]]
        if count == 4:
            b2, b3 = bins[g + 2, first:last], bins[g + 3, first:last]
            w2, w3 = w[starts[g + 2] :], w[starts[g + 3] :]
            for i in range(n_rows):
                out[i] += (w0[b0[i]] + w1[b1[i]]) + (w2[b2[i]] + w3[b3[i]])
        g += count


@_fast
def gather(bins, starts, W, out, first):
    """`gather_one` for several outputs: W of shape (bins, outputs)."""
    for g in range(bins.shape[0]):
        b, part = bins[g, first : first + out.shape[0]], W[starts[g] :]
        for i in range(out.shape[0]):
            source, target = part[b[i]], out[i]
            for c in range(target.shape[0]):
                target[c] += source[c]


@_fast
def gather_found_one(bins, starts, stops, W, out, first):
    """`gather_found` for one output."""
    for g in range(bins.shape[0]):
        b, part = bins[g, first : first + out.shape[0]], W[starts[g] : stops[g], 0]
        n_known = part.shape[0]
        for i in range(out.shape[0]):
            if b[i] < n_known:
                out[i, 0] += part[b[i]]


@_fast
def gather_found(bins, starts, stops, W, out, first):
    """`gather` where bins may be unknown: those contribute nothing."""
    for g in range(bins.shape[0]):
        b, part = bins[g, first : first + out.shape[0]], W[starts[g] : stops[g]]
        n_known = part.shape[0]
        for i in range(out.shape[0]):
            if b[i] < n_known:
                source, target = part[b[i]], out[i]
                for c in range(target.shape[0]):
                    target[c] += source[c]


@_fast
def scatter_one(bins, starts, stops, v, out, fresh):
    """out[starts[g] + bins[g, i]] += v[i] for every grid, from zero if `fresh`.

    Several grids at a time: rows that follow each other share cells, and each addition waits
    for the last one to the same cell. Sums of few cells are kept apart until they are complete:
    where two threads' cells meet in a cache line, each addition would wait for the other core.
    """
    n_grids, n_rows = bins.shape
    apart = np.empty((8, _FEW_CELLS), out.dtype)
    g = 0
    while g < n_grids:
        count = _at_once(starts, stops, g, n_grids, 8)
        largest = 0
        for k in range(g, g + count):
            largest = max(largest, stops[k] - starts[k])
        few = largest <= _FEW_CELLS
        if few:
            apart[:count, :largest] = 0.0
        elif fresh:  # just before they are used: they are in cache then
            for k in range(g, g + count):
                out[starts[k] : stops[k]] = 0.0
        b0, o0 = bins[g], apart[0] if few else out[starts[g] :]
        if count == 1:
            for i in range(n_rows):
                o0[b0[i]] += v[i]
        else:
            b1, o1 = bins[g + 1], apart[1] if few else out[starts[g + 1] :]
        if count == 2:
            for i in range(n_rows):
                o0[b0[i]] += v[i]
                o1[b1[i]] += v[i]
        if count >= 4:
            b2, b3 = bins[g + 2], bins[g + 3]
            o2 = apart[2] if few else out[starts[g + 2] :]
            o3 = apart[3] if few else out[starts[g + 3] :]
        if count == 4:
            for i in range(n_rows):
                o0[b0[i]] += v[i]
                o1[b1[i]] += v[i]
                o2[b2[i]] += v[i]
                o3[b3[i]] += v[i]
        if count == 8:
            b4, b5, b6, b7 = bins[g + 4], bins[g + 5], bins[g + 6], bins[g + 7]
            a0, a1, a2, a3 = apart[0], apart[1], apart[2], apart[3]
            a4, a5, a6, a7 = apart[4], apart[5], apart[6], apart[7]
            for i in range(n_rows):
                a0[b0[i]] += v[i]
                a1[b1[i]] += v[i]
                a2[b2[i]] += v[i]
                a3[b3[i]] += v[i]
                a4[b4[i]] += v[i]
                a5[b5[i]] += v[i]
                a6[b6[i]] += v[i]
                a7[b7[i]] += v[i]
        for k in range(g, g + count if few else g):
            total, target = apart[k - g], out[starts[k] : stops[k]]
            for b in range(target.shape[0]):
                target[b] = total[b] if fresh else target[b] + total[b]
        g += count


@_fast
def scatter(bins, starts, stops, V, out, fresh):
    """`scatter_one` for several outputs."""
    for g in range(bins.shape[0]):
        b, part = bins[g], out[starts[g] : stops[g]]
        if fresh:
            part[:] = 0.0
        for i in range(V.shape[0]):
            source, target = V[i], part[b[i]]
            for c in range(source.shape[0]):
                target[c] += source[c]


@_fast
def scatter_found(bins, starts, stops, V, out, fresh):
    """`scatter` where bins may be unknown."""
    for g in range(bins.shape[0]):
        b, part = bins[g], out[starts[g] : stops[g]]
        if fresh:
            part[:] = 0.0
        n_known = part.shape[0]
        for i in range(V.shape[0]):
            if b[i] < n_known:
                source, target = V[i], part[b[i]]
                for c in range(source.shape[0]):
                    target[c] += source[c]


@_fast
def add_rows(rows, value, places, out):
    """out[places[i]] += value * rows[i]."""
    for i in range(rows.shape[0]):
        target, source = out[places[i]], rows[i]
        for c in range(source.shape[0]):
            target[c] += value * source[c]


@_fast
def take_rows(V, value, places, out):
    """out[i] = value * V[places[i]]."""
    for i in range(out.shape[0]):
        source, target = V[places[i]], out[i]
        for c in range(target.shape[0]):
            target[c] = value * source[c]


@_fast
def outer_one(bins, sizes, V, table, out):
    """out[i] += sum over grids of the sum of V over the rows that share row i's cell.

    `sizes` are the grids' numbers of cells, `table` room for four grids' sums: they stay in
    cache between the two passes over the rows. Arrays have one column.
    """
    v, table, out = V[:, 0], table[:, 0], out[:, 0]
    n_grids, n_rows = bins.shape
    fours = n_grids - n_grids % 4
    for g in range(0, fours, 4):
        b0, b1, b2, b3 = bins[g], bins[g + 1], bins[g + 2], bins[g + 3]
        e0 = sizes[g]
        e1 = e0 + sizes[g + 1]
        e2 = e1 + sizes[g + 2]
        e3 = e2 + sizes[g + 3]
        table[:e3] = 0.0
        t0, t1, t2, t3 = table[:e0], table[e0:e1], table[e1:e2], table[e2:e3]
        for i in range(n_rows):
            t0[b0[i]] += v[i]
            t1[b1[i]] += v[i]
            t2[b2[i]] += v[i]
            t3[b3[i]] += v[i]
        for i in range(n_rows):
            out[i] += (t0[b0[i]] + t1[b1[i]]) + (t2[b2[i]] + t3[b3[i]])
    for g in range(fours, n_grids):
        b, part = bins[g], table[: sizes[g]]
        part[:] = 0.0
        for i in range(n_rows):
            part[b[i]] += v[i]
        for i in range(n_rows):
            out[i] += part[b[i]]


@_fast
def outer(bins, sizes, V, table, out):
    """`outer_one` for several outputs: `table` of shape (cells, outputs), for one grid."""
    for g in range(bins.shape[0]):
        b, part = bins[g], table[: sizes[g]]
        part[:] = 0.0
        for i in range(V.shape[0]):
            source, target = V[i], part[b[i]]
            for c in range(source.shape[0]):
                target[c] += source[c]
        for i in range(V.shape[0]):
            source, target = part[b[i]], out[i]
            for c in range(target.shape[0]):
                target[c] += source[c]
