"""Products with bins against the machine's memory."""

from itertools import product
from types import SimpleNamespace

import numpy as np
from _machine import best_of_each, neighbours, thread_gain

from _binning.common import apart, share

ROWS, GRIDS = 2**19, 64
KAPPAS = [(100, np.uint16), (10_000, np.uint16), (10_000, np.uint32), (100_000, np.uint32)]
COPIED_BYTES = 2**28
REPEATS = 25  # by turns, of which the best counts


def bare_loops():
    """The gather and the scatter of one grid, with nothing else."""
    from numba import njit

    @njit(nogil=True, error_model="numpy")
    def gather(bins, w, out):
        for i in range(bins.shape[0]):
            out[i] += w[bins[i]]

    @njit(nogil=True, error_model="numpy")
    def scatter(bins, v, out):
        for i in range(bins.shape[0]):
            out[bins[i]] += v[i]

    return gather, scatter


def copy_bandwidths(n_bytes):
    """Bytes read and written a second while a long array is copied, by one thread and by two."""
    from rkhs.compute import run_tiles, slices

    source, target = np.ones(n_bytes, np.uint8), np.zeros(n_bytes, np.uint8)

    def copy(part):
        np.copyto(target[part], source[part])

    tiles = slices(n_bytes, 2**22)
    seconds = best_of_each({n: lambda n=n: run_tiles(copy, tiles, n) for n in (1, 2)}, REPEATS)
    return [2 * n_bytes / seconds[n] for n in (1, 2)]


def bin_numbers(kappa, kind, is_sorted, n_rows, n_grids):
    bins = np.random.default_rng(0).integers(kappa, size=(n_grids, n_rows)).astype(kind)
    return np.sort(bins, axis=1) if is_sorted else bins


def products(bins, kappa, n_jobs):
    """The operator's products over given bins, and the bare loops over the same."""
    from rkhs.compute import run_tiles, slices
    from rkhs.operators import BinBlock, BinnedOperator
    from rkhs.operators._binned import _TILE_ROWS

    n_grids, n_rows = bins.shape
    starts = kappa * np.arange(n_grids + 1)
    stub = SimpleNamespace(
        n_outputs=kappa * n_grids,
        starts_=starts,
        value_=n_grids**-0.5,
        rows_at_once=n_rows,
        found_bytes=0,
    )
    blocks = [BinBlock(np.arange(part.start, part.stop), bins[part]) for part in slices(n_grids, 8)]
    chunks = [(slice(0, n_rows), None, blocks)]
    operator = BinnedOperator(stub, range(n_rows), chunks, np.float32, n_jobs)
    w = np.ones((operator.shape[1], 1), np.float32)
    v = np.ones((n_rows, 1), np.float32)
    total, sums = np.zeros(n_rows, np.float32), np.zeros(operator.shape[1])
    gather, scatter = bare_loops()

    def gather_tile(rows):
        for g in range(n_grids):
            gather(bins[g, rows], w[starts[g] : starts[g + 1], 0], total[rows])

    def scatter_grid(g):
        scatter(bins[g], v[:, 0], sums[starts[g] : starts[g + 1]])

    out = np.zeros((operator.shape[1], 1))
    tiles = slices(n_rows, _TILE_ROWS[1])
    return {
        ("Z @ w", "ours", n_jobs): lambda: operator.matmat(w),
        ("Z @ w", "bare", n_jobs): lambda: run_tiles(gather_tile, tiles, n_jobs),
        ("Z.T @ v", "ours", n_jobs): lambda: operator.rmatmat(v, out),
        ("Z.T @ v", "bare", n_jobs): lambda: run_tiles(scatter_grid, range(n_grids), n_jobs),
    }


def bandwidth_job(quick):
    """The machine's copies, then the products for each number and order of bins."""
    n_rows, n_grids, n_bytes = (20_000, 8, 2**24) if quick else (ROWS, GRIDS, COPIED_BYTES)
    yield {"copy": copy_bandwidths(n_bytes)}
    for (kappa, kind), is_sorted in product(KAPPAS, (False, True)):
        bins = bin_numbers(kappa, kind, is_sorted, n_rows, n_grids)
        functions = products(bins, kappa, 1) | products(bins, kappa, 2)
        for function in functions.values():
            function()  # compiles
        with neighbours() as others:
            seconds = best_of_each(functions, REPEATS)
        for name, element in (("Z @ w", 4), ("Z.T @ v", 8)):
            ns = {
                kind: [1e9 / bins.size * seconds[name, kind, n] for n in (1, 2)]
                for kind in ("ours", "bare")
            }
            yield {
                "product": name,
                "kappa": kappa,
                "sorted": is_sorted,
                "bytes": bins.itemsize,
                # Z @ w gathers elements of float32, Z.T @ v adds to elements of float64.
                "rate": 1e9 * (bins.itemsize + element) / ns["ours"][1],
                "ns": ns["ours"] + ns["bare"],
                "others": others.share,
            }


def bandwidth(options):
    """Binned products as a share of the copy bandwidth, and next to the bare loops."""
    n_rows, n_grids = (20_000, 8) if options.quick else (ROWS, GRIDS)
    print(f"{n_rows:,} rows, {n_grids} grids, random bins, float32, one output; ns a row and grid.")
    print("Bytes counted a row and grid: the bin number, and the vector's element once (Z @ w: 4")
    print("bytes, Z.T @ v: 8); nothing for the rows' own sums, which are read again for each grid.")
    print("Copy counts what is read and what is written. Bare: out[i] += w[b[i]] (Z @ w) and")
    print("out[b[i]] += v[i] (Z.T @ v) over the same bins, alone in its loop, with two threads.")
    print(
        "Times: one thread over two, of ours and of the bare loop. Where the bare loop gains less"
    )
    print("than ours would have to, memory is the limit and not the loop.")
    print(f"Two threads at sines, which need no memory: {thread_gain():.2f} times one.")
    for row in apart(bandwidth_job, quick=options.quick):
        if "copy" in row:
            one, copy = row["copy"]
            print(f"copy: {one / 1e9:.1f} GB/s with one thread, {copy / 1e9:.1f} with two ", end="")
            print(f"({copy / one:.2f} times)\n")
            print(
                f"{'product':8s} {'kappa':>8s} {'bytes':>5s} {'rows':>7s} {'1 thread':>8s}", end=""
            )
            print(
                f" {'2':>6s} {'times':>6s} {'bare':>6s} {'times':>6s} {'GB/s':>6s} {'of copy':>8s}",
                end="",
            )
            print(f" {'bare/Z':>7s} {'others':>8s}")
            continue
        one, two, bare_one, bare = row["ns"]
        print(
            f"{row['product']:8s} {row['kappa']:8,d} {row['bytes']:5d} "
            f"{'sorted' if row['sorted'] else 'random':>7s} {one:8.3f} {two:6.3f} "
            f"{one / two:6.2f} {bare:6.3f} {bare_one / bare:6.2f} {row['rate'] / 1e9:6.1f} "
            f"{share(row['rate'] / copy):>8s} {bare / two:7.2f} {share(row['others']):>8s}",
            flush=True,
        )
