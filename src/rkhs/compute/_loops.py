"""The compiled loops. Imported late: Numba takes its time.

Each runs over a tile that is still in cache, without the interpreter's lock. Cosine and
exponential are a reduction to a small interval and a short polynomial, written so that LLVM
turns the loop into vector instructions: several times faster than the library functions.
"""

import numpy as np
from numba import njit

from rkhs.compute._wide import wide

# Chebyshev fits: cos(2 pi u) as a polynomial of u^2 on |u| <= 1/4 (error 2e-10 before
# rounding) and 2^f on |f| <= 1/2 (8e-8): about float32's own rounding.
_LOG2_E = np.float32(1.4426950408889634)
_LARGEST_POWER = np.float32(126.0)
# No flag that assumes finite values: products of many columns may overflow to infinity.
_fast = njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"}
)


@njit(inline="always")
def _quarter_cosine(v):
    # cos(2 pi v) for |v| <= 1/4.
    c0, c1, c2 = np.float32(1.0), np.float32(-19.739209), np.float32(64.939346)
    c3, c4, c5 = np.float32(-85.453565), np.float32(60.14389), np.float32(-24.981434)
    t = v * v
    return c0 + t * (c1 + t * (c2 + t * (c3 + t * (c4 + t * c5))))


@_fast
def cosine_f32(turns, start, stop, scale):
    wide()
    half, quarter = np.float32(0.5), np.float32(0.25)
    for i in range(turns.shape[0]):
        row = turns[i][start:stop]
        for j in range(row.shape[0]):
            u = row[j]
            # Distance to the nearest half turn is at most a quarter: the sign follows.
            v = abs(u - np.rint(u))
            flip = v > quarter
            value = _quarter_cosine(half - v if flip else v)
            row[j] = -scale * value if flip else scale * value


@_fast
def cosine_pairs_f32(turns, first, count, scale, out, left):
    wide()
    # Cosine and sine of one angle share its reduction to half a turn. Rows are cut from whole
    # arrays: a loop over a view of some columns would not become vector instructions.
    half, quarter = np.float32(0.5), np.float32(0.25)
    for i in range(turns.shape[0]):
        row = turns[i][first : first + count]
        cosine = out[i][left : left + count]
        sine = out[i][left + count : left + 2 * count]
        for j in range(row.shape[0]):
            v = row[j] - np.rint(row[j])
            size = abs(v)
            flip = size > quarter
            value = _quarter_cosine(half - size if flip else size)
            other = scale * _quarter_cosine(size - quarter)
            cosine[j] = -scale * value if flip else scale * value
            sine[j] = -other if v < np.float32(0.0) else other


@njit(inline="always")
def _exp_f32(x, largest=_LARGEST_POWER):
    """exp(x), of at most 2^largest."""
    e1, e2, e3 = np.float32(0.6931472), np.float32(0.24022107), np.float32(0.05550357)
    e4, e5 = np.float32(0.009676032), np.float32(0.0013390863)
    x = min(max(x * _LOG2_E, np.float32(-126.0)), largest)
    k = np.rint(x)
    f = x - k
    power = np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)
    return power * (np.float32(1.0) + f * (e1 + f * (e2 + f * (e3 + f * (e4 + f * e5)))))


@_fast
def exponential_f32(tile):
    wide()
    for i in range(tile.shape[0]):
        row = tile[i]
        for j in range(row.shape[0]):
            row[j] = _exp_f32(row[j])


@_fast
def matern_f32(tile):
    wide()
    one = np.float32(1.0)
    for i in range(tile.shape[0]):
        row = tile[i]
        for j in range(row.shape[0]):
            root = np.sqrt(row[j])
            row[j] = (one + root) * _exp_f32(-root)


@_fast
def gaussian_f32(products, left, right):
    wide()
    zero = np.float32(0.0)
    for i in range(products.shape[0]):
        row = products[i]
        shift = left[i]
        for j in range(row.shape[0]):
            row[j] = _exp_f32(row[j] - shift - right[j], zero)


@_fast
def exponential_distances_f32(products, left, right, X, Y, close):
    wide()
    # exp(-||x - y||) from inner products and half squared norms. Pairs so close that norms
    # minus product is mostly rounding are computed from their difference: the root would
    # show it. Norms of both are about equal there, so the row's own will do.
    zero, one, two = np.float32(0.0), np.float32(1.0), np.float32(2.0)
    for i in range(products.shape[0]):
        row = products[i]
        shift = left[i]
        limit = _exp_f32(-np.sqrt(close * shift))
        n_close = zero
        for j in range(row.shape[0]):
            value = _exp_f32(-np.sqrt(max(two * (shift + right[j] - row[j]), zero)))
            row[j] = value
            n_close += one if value >= limit else zero
        if n_close == zero:
            continue
        for j in range(row.shape[0]):
            if row[j] >= limit:
                total = zero
                for c in range(X.shape[1]):
                    difference = X[i, c] - Y[j, c]
                    total += difference * difference
                row[j] = _exp_f32(-np.sqrt(total))


@_fast
def combine(products, left, right, factor):
    wide()
    zero = products.dtype.type(0.0)
    two = products.dtype.type(2.0)
    for i in range(products.shape[0]):
        row = products[i]
        shift = left[i]
        for j in range(row.shape[0]):
            row[j] = factor * max(two * (shift + right[j] - row[j]), zero)


@_fast
def refine(out, X, half_x, Y, half_y, factor, close):
    # Norms of both are about equal where a pair is close, so the row's own will do.
    zero, one = np.float32(0.0), np.float32(1.0)
    for i in range(out.shape[0]):
        row = out[i]
        limit = factor * close * half_x[i]
        n_close = zero  # a sum becomes vector instructions, a minimum or an early end does not
        for j in range(row.shape[0]):
            n_close += one if row[j] <= limit else zero
        if n_close == zero:
            continue
        for j in range(row.shape[0]):
            if row[j] <= limit:
                total = 0.0
                for c in range(X.shape[1]):
                    difference = X[i, c] - Y[j, c]
                    total += difference * difference
                row[j] = factor * total


@_fast
def l1(X, columns, out):
    wide()
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
def one_plus_square(X, columns, out):
    wide()
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


@_fast
def gather_columns(tile, columns, first, out):
    # Four rows at a time: a column's number is read once for all four.
    fours = tile.shape[0] - tile.shape[0] % 4
    for i in range(0, fours, 4):
        r0, r1, r2, r3 = tile[i], tile[i + 1], tile[i + 2], tile[i + 3]
        o0, o1, o2, o3 = out[i], out[i + 1], out[i + 2], out[i + 3]
        for j in range(columns.shape[0]):
            c = columns[j] - first
            o0[j] = r0[c]
            o1[j] = r1[c]
            o2[j] = r2[c]
            o3[j] = r3[c]
    for i in range(fours, tile.shape[0]):
        row, into = tile[i], out[i]
        for j in range(columns.shape[0]):
            into[j] = row[columns[j] - first]


@_fast
def times_few(tile, vectors, out):
    wide()
    # out += tile @ vectors.T with a few vectors, in their precision. Four rows by two or three
    # vectors: as many sums as there are registers, so that each number that is read serves
    # several. Row by row: sums of one vector next to each other would become the wrong vector
    # instructions.
    n_rows, n_vectors = tile.shape[0], vectors.shape[0]
    fours = n_rows - n_rows % 4
    # One vector alone, or pairs until the others are threes.
    single = 1 if n_vectors == 1 else 0
    paired = 0 if single else 2 * (-n_vectors % 3)
    zero = vectors.dtype.type(0.0)
    for i in range(0, fours, 4):
        r0, r1, r2, r3 = tile[i], tile[i + 1], tile[i + 2], tile[i + 3]
        for c in range(single):
            u = vectors[c]
            u0, u1, u2, u3 = zero, zero, zero, zero
            for j in range(r0.shape[0]):
                u0 += r0[j] * u[j]
                u1 += r1[j] * u[j]
                u2 += r2[j] * u[j]
                u3 += r3[j] * u[j]
            _add_four(out, i, c, u0, u1, u2, u3)
        for c in range(single, paired, 2):
            u, v = vectors[c], vectors[c + 1]
            u0, u1, u2, u3 = zero, zero, zero, zero
            v0, v1, v2, v3 = zero, zero, zero, zero
            for j in range(r0.shape[0]):
                u0 += r0[j] * u[j]
                v0 += r0[j] * v[j]
                u1 += r1[j] * u[j]
                v1 += r1[j] * v[j]
                u2 += r2[j] * u[j]
                v2 += r2[j] * v[j]
                u3 += r3[j] * u[j]
                v3 += r3[j] * v[j]
            _add_four(out, i, c, u0, u1, u2, u3)
            _add_four(out, i, c + 1, v0, v1, v2, v3)
        for c in range(single + paired, n_vectors, 3):
            u, v, w = vectors[c], vectors[c + 1], vectors[c + 2]
            u0, u1, u2, u3 = zero, zero, zero, zero
            v0, v1, v2, v3 = zero, zero, zero, zero
            w0, w1, w2, w3 = zero, zero, zero, zero
            for j in range(r0.shape[0]):
                u0 += r0[j] * u[j]
                v0 += r0[j] * v[j]
                w0 += r0[j] * w[j]
                u1 += r1[j] * u[j]
                v1 += r1[j] * v[j]
                w1 += r1[j] * w[j]
                u2 += r2[j] * u[j]
                v2 += r2[j] * v[j]
                w2 += r2[j] * w[j]
                u3 += r3[j] * u[j]
                v3 += r3[j] * v[j]
                w3 += r3[j] * w[j]
            _add_four(out, i, c, u0, u1, u2, u3)
            _add_four(out, i, c + 1, v0, v1, v2, v3)
            _add_four(out, i, c + 2, w0, w1, w2, w3)
    for i in range(fours, n_rows):
        r0 = tile[i]
        for c in range(n_vectors):
            u = vectors[c]
            u0 = zero
            for j in range(r0.shape[0]):
                u0 += r0[j] * u[j]
            out[i, c] += u0


@njit
def _add_four(out, i, c, a0, a1, a2, a3):
    out[i, c] += a0
    out[i + 1, c] += a1
    out[i + 2, c] += a2
    out[i + 3, c] += a3


@_fast
def cosine_pairs_times_few(turns, vectors, out):
    wide()
    # out += [cos, sin](turns) @ vectors.T: four rows at a time, which never leave the
    # innermost cache between the cosine and the product.
    count = turns.shape[1]
    pairs = np.empty((4, 2 * count), np.float32)
    for i in range(0, turns.shape[0], 4):
        few = turns[i : i + 4]
        tile = pairs[: few.shape[0]]
        cosine_pairs_f32(few, 0, count, np.float32(1.0), tile, 0)
        times_few(tile, vectors, out[i : i + 4])


@_fast
def transposed_times_few(tile, V, out):
    wide()
    # out += V.T @ tile. Four rows at a time: the sums are read and written once for all four.
    n_rows = tile.shape[0]
    fours = n_rows - n_rows % 4
    for i in range(0, fours, 4):
        r0, r1, r2, r3 = tile[i], tile[i + 1], tile[i + 2], tile[i + 3]
        for c in range(out.shape[0]):
            sums = out[c]
            v0, v1, v2, v3 = V[i, c], V[i + 1, c], V[i + 2, c], V[i + 3, c]
            for j in range(sums.shape[0]):
                sums[j] += (v0 * r0[j] + v1 * r1[j]) + (v2 * r2[j] + v3 * r3[j])
    for i in range(fours, n_rows):
        row = tile[i]
        for c in range(out.shape[0]):
            sums = out[c]
            v = V[i, c]
            for j in range(sums.shape[0]):
                sums[j] += v * row[j]


@_fast
def gram_times_few(tile, vectors, scale, beside, out):
    wide()
    # inner = scale * (tile @ vectors.T + beside), out += (tile.T @ inner).T: a row is in the
    # innermost cache for both products. `scale` has one column, or one a vector; `beside` becomes
    # `inner`, and may be empty.
    n_rows, n_vectors = tile.shape[0], vectors.shape[0]
    begin = _gram_times_one(tile, vectors[0], scale, beside, out[0]) if n_vectors == 1 else 0
    inner = np.empty((4, n_vectors), vectors.dtype)
    last = scale.shape[1] - 1
    for i in range(begin, n_rows, 4):
        few = tile[i : i + 4]
        inner[:] = 0.0
        times_few(few, vectors, inner)
        for r in range(few.shape[0]):
            for c in range(n_vectors):
                if beside.shape[0] > 0:
                    inner[r, c] += beside[i + r, c]
                inner[r, c] *= scale[i + r, min(c, last)]
                if beside.shape[0] > 0:
                    beside[i + r, c] = inner[r, c]
        transposed_times_few(few, inner, out)


@_fast
def _gram_times_one(tile, w, scale, beside, sums):
    wide()
    # Eight rows at a time, for one vector waits for memory; returns the first row left over.
    zero = w.dtype.type(0.0)
    eights = tile.shape[0] - tile.shape[0] % 8
    for i in range(0, eights, 8):
        r0, r1, r2, r3 = tile[i], tile[i + 1], tile[i + 2], tile[i + 3]
        r4, r5, r6, r7 = tile[i + 4], tile[i + 5], tile[i + 6], tile[i + 7]
        v0, v1, v2, v3, v4, v5, v6, v7 = zero, zero, zero, zero, zero, zero, zero, zero
        for j in range(w.shape[0]):
            v0 += r0[j] * w[j]
            v1 += r1[j] * w[j]
            v2 += r2[j] * w[j]
            v3 += r3[j] * w[j]
            v4 += r4[j] * w[j]
            v5 += r5[j] * w[j]
            v6 += r6[j] * w[j]
            v7 += r7[j] * w[j]
        if beside.shape[0] > 0:
            v0 += beside[i, 0]
            v1 += beside[i + 1, 0]
            v2 += beside[i + 2, 0]
            v3 += beside[i + 3, 0]
            v4 += beside[i + 4, 0]
            v5 += beside[i + 5, 0]
            v6 += beside[i + 6, 0]
            v7 += beside[i + 7, 0]
        v0 *= scale[i, 0]
        v1 *= scale[i + 1, 0]
        v2 *= scale[i + 2, 0]
        v3 *= scale[i + 3, 0]
        v4 *= scale[i + 4, 0]
        v5 *= scale[i + 5, 0]
        v6 *= scale[i + 6, 0]
        v7 *= scale[i + 7, 0]
        if beside.shape[0] > 0:
            beside[i, 0], beside[i + 1, 0], beside[i + 2, 0], beside[i + 3, 0] = v0, v1, v2, v3
            beside[i + 4, 0], beside[i + 5, 0], beside[i + 6, 0], beside[i + 7, 0] = v4, v5, v6, v7
        for j in range(w.shape[0]):
            above = (v0 * r0[j] + v1 * r1[j]) + (v2 * r2[j] + v3 * r3[j])
            below = (v4 * r4[j] + v5 * r5[j]) + (v6 * r6[j] + v7 * r7[j])
            sums[j] += above + below
    return eights


@_fast
def absolute_sum(a):
    total = 0.0
    for i in range(a.shape[0]):
        total += abs(a[i])
    return total


@_fast
def add_multiple(A, factor, B):
    wide()
    for i in range(A.shape[0]):
        for c in range(A.shape[1]):
            A[i, c] += factor[c] * B[i, c]


@_fast
def multiply_and_add(A, factor, B):
    wide()
    for i in range(A.shape[0]):
        for c in range(A.shape[1]):
            A[i, c] = factor[c] * A[i, c] + B[i, c]
