"""Random binning next to its peers: what it reaches, how fast, and in how much memory.

Data from the folder that RKHS_DATA names. Each measurement runs in a process of its own, after
compiled code was warmed; "others" is the share of the CPU that other processes took meanwhile.

    RKHS_DATA=folder python benchmarks/binning.py                    # everything
    RKHS_DATA=folder python benchmarks/binning.py covtype bandwidth  # some sections
    RKHS_DATA=folder python benchmarks/binning.py --quick            # does it run at all?
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import suppress
from functools import cache
from itertools import product
from types import SimpleNamespace

import numpy as np
from _machine import best, describe, neighbours, peak_bytes, thread_gain

QUICK_ROWS = 2000

# figure5
SETS = ["covtype", "ijcnn1", "california_housing", "mnist", "letter"]
REGRESSION = {"california_housing"}
SIZES = [16, 64, 256, 1024, 4096]  # R: grids, Fourier features, centres, rows of a block
METHODS = ["random Fourier", "random binning", "Nystrom", "block diagonal", "exact"]
ALL_ROWS = {"block diagonal", "exact"}  # predict with every training row as a centre
ALL_ROWS_TEST = 5000  # test rows that those methods are judged by
EXACT_ROWS = 20_000  # training rows that the exact kernel gets at most
TUNING_ROWS = 5000
TUNING_SIZE = {"random binning": 64}  # 256 for the others
LENGTH_SCALES = [1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0]  # times the median L1 distance
RIDGES = [0.01, 0.1, 1.0]  # alpha times the number of rows
TOL, EPOCHS = 1e-2, 100  # of conjugate gradients, all methods

# covtype
# Grids, and whether length scales are searched for. Seven classes have seven times the vectors.
COVTYPE_GRIDS = {False: [(320, False), (None, True)], True: [(256, False), (None, True)]}
RIDGE = 0.1  # alpha times the number of rows
# Of 0.01, 0.03, 0.1 and of 10 to 25 steps, by the error on a tenth of the training rows.
COVTYPE_RIDGE, COVTYPE_EPOCHS = 0.03, 18
TREES, LEARNING_RATE, LEAVES = 500, 0.05, [255, 31]

# bandwidth
ROWS, GRIDS = 2**19, 64
KAPPAS = [(100, np.uint16), (10_000, np.uint16), (10_000, np.uint32), (100_000, np.uint32)]
COPIED_BYTES = 2**28

# l1
L1_SETS = ["ijcnn1", "cod_rna_train"]
L1_SIZES = {"random binning": 256, "random Fourier": 1024}
L1_ALPHA = 1e-4
L1_PATH = [1e-3, 3e-4, 1e-4, 3e-5, 1e-5]
L1_SECONDS = 10.0  # after which a run to the fixed objective ends
L1_GAP = 0.01  # of the lowest objective seen, that the fixed one lies above it
OPTIMUM_ROWS, OPTIMUM_GRIDS, OPTIMUM_ALPHA = 5000, 16, 1e-3
HARD_ROWS, HARD_GRIDS, HARD_ALPHA, HARD_SCALE = [5000, 80_000], 256, 1e-5, 5.0

# memory
MEMORY_GRIDS = [64, 256]


# Tables, and models that are measured alike


@cache
def table(name, quick, all_classes=False):
    """Training and test rows: numeric columns standardised, 0/1 columns as they are."""
    from rkhs.datasets import load

    X, y, X_test, y_test = load(name)
    if name == "covtype" and not all_classes:
        y = (y == 2).astype(np.int8)
    if name in REGRESSION:
        y = (y - y.mean()) / 1e5
    if X_test is None:
        order = np.random.default_rng(0).permutation(len(X))
        train, test = np.split(order, [int(0.8 * len(X))])
        X, y, X_test, y_test = X[train], y[train], X[test], y[test]
    if quick:
        X, y, X_test, y_test = (part[:QUICK_ROWS] for part in (X, y, X_test, y_test))
    X, X_test = X.astype(np.float32), X_test.astype(np.float32)
    if name == "mnist":
        return X / 255, y, X_test / 255, y_test
    numeric = ((X != 0) & (X != 1)).any(axis=0)
    shift = np.where(numeric, X.mean(axis=0, dtype=np.float64), 0.0).astype(np.float32)
    scale = np.where(numeric, X.std(axis=0, dtype=np.float64), 1.0).astype(np.float32)
    return (X - shift) / scale, y, (X_test - shift) / scale, y_test


def error_of(predicted, y):
    """Errors in percent, or the root of the mean squared error."""
    if y.dtype.kind == "f":
        return float(np.sqrt(np.mean((predicted - y) ** 2)))
    return 100 * float(np.mean(predicted != y))


def forget_peak() -> int:
    """Let the peak memory begin anew at what is held now (Linux), and return it."""
    with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return peak_bytes()


def measure(model, X, y, X_test, y_test, repeats=1):
    """Fit (short fits several times: the best counts) and predict; what it took."""
    before = forget_peak()
    seconds = []
    with neighbours() as others:
        while len(seconds) < repeats and sum(seconds) < 3.0:
            begin = time.perf_counter()
            model.fit(X, y)
            seconds.append(time.perf_counter() - begin)
    peak = peak_bytes()
    begin = time.perf_counter()
    predicted = model.predict(X_test)
    row = {"fit": min(seconds), "predict": time.perf_counter() - begin}
    row |= {"error": error_of(predicted, y_test), "others": others.share}
    row |= {"extra": peak - before, "peak": peak_bytes()}
    features = getattr(model, "features_", None)
    if getattr(features, "is_sparse", False):
        row["kappa"] = features.n_outputs / features.n_grids
    return row | {"epochs": len(getattr(model, "history_", []))}


def estimator(y, kernel, features, alpha, solver, **settings):
    from rkhs import KernelClassifier, KernelRegressor

    kind = KernelRegressor if y.dtype.kind == "f" else KernelClassifier
    settings = {"loss": "squared_error", "random_state": 0} | settings
    return kind(kernel=kernel, features=features, alpha=alpha, solver=solver, **settings)


def binning(y, n_grids, length_scale, alpha, epochs):
    from rkhs.features import RandomBinning
    from rkhs.kernels import Laplacian

    features, solver = RandomBinning(n_grids), "conjugate_gradient"
    return estimator(y, Laplacian(length_scale), features, alpha, solver, max_epochs=epochs)


def warm_binning(y):
    """Load the compiled loops for such targets, with two and with four bytes a bin."""
    X = np.random.default_rng(0).normal(size=(70_000, 2)).astype(np.float32)
    classes = np.unique(y) if y.dtype.kind != "f" else y[:1]
    target = np.resize(classes, len(X))
    for length_scale in (1e-4, 1.0):
        binning(target, 4, length_scale, 1e-3, 1).fit(X, target).predict(X[:100])


def apart(job, **arguments):
    """Run a job of this file in a process of its own (a quick one here); its rows as they come."""
    if arguments["quick"]:
        yield from job(**arguments)
        return
    command = [sys.executable, "-W", "ignore", __file__, "--job", job.__name__]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [*command, json.dumps(arguments)], stdout=subprocess.PIPE, stderr=errors, text=True
        )
        for line in process.stdout:
            yield json.loads(line)
        if process.wait():
            errors.seek(0)
            message = errors.read().strip().splitlines() or [f"ended by signal {-process.wait()}"]
            print(f"    failed: {message[-1][:160]}", flush=True)


def share(fraction):
    return f"{100 * fraction:5.1f} %"


# Figure 5 of the paper


class BlockDiagonal:
    """Exact kernel ridge regression in each of some random blocks of rows.

    A new row's prediction is the mean over the blocks.
    """

    def __init__(self, kernel, block_size, alpha):
        self.kernel = kernel
        self.block_size = block_size
        self.alpha = alpha

    def fit(self, X, y):
        from scipy.linalg import solve
        from sklearn.preprocessing import LabelBinarizer

        from rkhs.compute import tile_map

        self.labels = None if y.dtype.kind == "f" else LabelBinarizer(neg_label=-1).fit(y)
        target = (y[:, None] if self.labels is None else self.labels.transform(y)).astype(float)
        self.X, self.coef = X, np.empty(target.shape)
        self.n_blocks = max(1, round(len(X) / self.block_size))
        order = np.random.default_rng(0).permutation(len(X))

        def solve_block(rows):
            K = self._operator(X[rows], X[rows]).rows(0, len(rows)).astype(float)
            K[np.diag_indices_from(K)] += self.alpha * len(X)
            self.coef[rows] = solve(K, target[rows], assume_a="pos", overwrite_a=True)

        for _ in tile_map(solve_block, np.array_split(order, self.n_blocks)):
            pass
        return self

    def predict(self, X):
        f = self._operator(X, self.X).matmat(self.coef) / self.n_blocks
        return f[:, 0] if self.labels is None else self.labels.inverse_transform(f, threshold=0)

    def _operator(self, X, centers):
        from rkhs.data import RowSource
        from rkhs.operators import KernelOperator

        return KernelOperator(self.kernel, RowSource(X), RowSource(centers), np.float32)


def features_of(method, size):
    """The feature map of a method; None for the exact kernel."""
    from rkhs.features import Nystrom, RandomBinning, RandomFourier

    kinds = {"random binning": RandomBinning, "random Fourier": RandomFourier, "Nystrom": Nystrom}
    return kinds[method](size) if method in kinds else None


def median_distance(X):
    """Of some pairs of rows, in the L1 norm."""
    from scipy.spatial.distance import pdist

    rows = np.random.default_rng(1).permutation(len(X))[:500]
    return float(np.median(pdist(X[rows], "cityblock")))


def figure5_model(method, size, length_scale, alpha, y):
    from rkhs.kernels import Laplacian
    from rkhs.solvers import ConjugateGradient

    kernel = Laplacian(length_scale)
    if method == "block diagonal":
        return BlockDiagonal(kernel, size, alpha)
    solver = ConjugateGradient(tol=TOL)
    return estimator(y, kernel, features_of(method, size), alpha, solver, max_epochs=EPOCHS)


def tune(method, X, y, quick):
    """Validation error, length scale and ridge: the best of a few on a subsample."""
    rows = np.random.default_rng(1).permutation(len(X))[:TUNING_ROWS]
    train, held_out = np.split(rows, [int(0.8 * len(rows))])
    unit = median_distance(X)
    size = TUNING_SIZE.get(method, 256)
    choices = [(1 / 4, 0.1)] if quick else product(LENGTH_SCALES, RIDGES)
    found = []
    for multiple, ridge in choices:
        model = figure5_model(method, size, multiple * unit, ridge / len(train), y)
        predicted = model.fit(X[train], y[train]).predict(X[held_out])
        found.append((error_of(predicted, y[held_out]), multiple * unit, ridge))
    return min(found)


def figure5_job(name, method, sizes, longest, quick):
    """Choices of one method, then its figures for each size."""
    from rkhs.compute import available_memory

    X, y, X_test, y_test = table(name, quick)
    if method in ALL_ROWS:
        few = np.random.default_rng(2).permutation(len(X_test))[:ALL_ROWS_TEST]
        X_test, y_test = X_test[few], y_test[few]
    if method == "exact":
        X, y = X[:EXACT_ROWS], y[:EXACT_ROWS]
        sizes = [len(X)]
    if method == "random binning":
        warm_binning(y)
    error, length_scale, ridge = tune(method, X, y, quick)
    yield {"length_scale": length_scale, "ridge": ridge, "validation": error}
    for size in sizes:
        model = figure5_model(method, size, length_scale, ridge / len(X), y)
        row = measure(model, X, y, X_test, y_test, repeats=3)
        yield {"size": size, "rows": len(X), "test_rows": len(X_test)} | row
        # The sizes grow fourfold, and so does the memory.
        if row["fit"] > longest or 4 * row["extra"] > 0.7 * available_memory():
            return


def figure5(options):
    """Error and seconds at equal R, five data sets, five methods."""
    print("Laplacian kernel, squared error, conjugate gradients to tol", TOL, "everywhere.")
    print(f"Each method has its own length scale and ridge (alpha n): the best on {TUNING_ROWS:,}")
    print("training rows (4/5 to fit, 1/5 to judge), R = 64 for random binning, else 256.")
    print("R is the number of grids, features or centres, or the rows of a block; for the exact")
    print(f"kernel the training rows (at most {EXACT_ROWS:,}). Block diagonal and exact are judged")
    print(f"by at most {ALL_ROWS_TEST:,} test rows, block diagonal by the mean over its blocks.")
    print(
        f"After a fit of more than {options.longest:g} s, or when four times its memory would not"
    )
    print("fit, a method's larger R are left out.")
    ratios = {}
    for name in options.sets:
        unit = "RMSE" if name in REGRESSION else "error %"
        print(f"\n{name}")
        print(
            f"{'method':16s} {'R':>6s} {'rows':>8s} {'test':>7s} {unit:>8s} {'fit s':>8s}", end=""
        )
        print(f" {'predict s':>9s} {'epochs':>6s} {'kappa':>8s} {'others':>8s}")
        rows = figure5_rows(name, options)
        ratios[name] = verdict(*(rows[method] for method in METHODS[:2]))
    reached = [name for name, ratio in ratios.items() if ratio <= 0.1]
    print(f"\nat most a tenth of the time on {len(reached)} of {len(ratios)} sets", *reached)


def figure5_rows(name, options):
    """Print a set's figures as they come; the rows of each method."""
    rows = {method: [] for method in METHODS}
    sizes = [size for size in SIZES if size <= options.largest]
    settings = {"sizes": sizes, "longest": options.longest, "quick": options.quick}
    for method in METHODS:
        for row in apart(figure5_job, name=name, method=method, **settings):
            print(f"{method:16s} ", end="")
            if "validation" in row:
                print(f"length scale {row['length_scale']:.3g}, ridge {row['ridge']:g} ", end="")
                print(f"(held-out rows: {row['validation']:.3f})", flush=True)
                continue
            rows[method].append(row)
            kappa = f"{row['kappa']:.0f}" if "kappa" in row else ""
            print(
                f"{row['size']:6d} {row['rows']:8,d} {row['test_rows']:7,d} {row['error']:8.3f} "
                f"{row['fit']:8.3f} {row['predict']:9.3f} {row['epochs'] or '':>6} {kappa:>8s} "
                f"{share(row['others']):>8s}",
                flush=True,
            )
    return rows


def verdict(fourier, binned):
    """Seconds of random binning over those of random Fourier features, at the latter's error."""
    if not fourier or not binned:
        print("-> no verdict: a method is missing")
        return np.inf
    last = fourier[-1]
    print(
        f"-> random Fourier, R = {last['size']}: {last['error']:.3f} in {last['fit']:.2f} s; ",
        end="",
    )
    first = next((row for row in binned if row["error"] <= last["error"]), None)
    if first is None:
        print(f"random binning does not reach it (best {min(r['error'] for r in binned):.3f})")
        return np.inf
    ratio = first["fit"] / last["fit"]
    print(f"random binning, R = {first['size']}: ", end="")
    print(f"{first['error']:.3f} in {first['fit']:.3f} s, ratio {ratio:.3f}")
    return ratio


# The full covtype table against boosted trees


class CovtypeBinning:
    """Random binning with length scale 1, or KernelClassifier with nothing set: searched."""

    def __init__(self, n_grids, search):
        self.n_grids = n_grids
        self.search = search

    def fit(self, X, y):
        if self.search:
            from rkhs import KernelClassifier

            self.model = KernelClassifier(loss="squared_error", random_state=0).fit(X, y)
        else:
            scales, alpha = np.ones(X.shape[1]), COVTYPE_RIDGE / len(X)
            self.model = binning(y, self.n_grids, scales, alpha, COVTYPE_EPOCHS).fit(X, y)
        self.features_, self.history_ = self.model.features_, self.model.history_
        return self

    def predict(self, X):
        return self.model.predict(X)


def covtype_job(all_classes, n_grids, search, leaves, trees, quick):
    """Random binning, or LightGBM if a number of leaves is given."""
    X, y, X_test, y_test = table("covtype", quick, all_classes)
    if leaves is None:
        warm_binning(y)
        model = CovtypeBinning(n_grids, search)
    else:
        from lightgbm import LGBMClassifier

        settings = {"learning_rate": LEARNING_RATE, "num_leaves": leaves, "verbose": -1}
        LGBMClassifier(n_estimators=2, **settings).fit(X[:2000], y[:2000])
        model = LGBMClassifier(n_estimators=trees, random_state=0, **settings)
    yield measure(model, X, y, X_test, y_test) | {"rows": len(X)}


def covtype(options):
    """Test error, seconds and memory on the full training set."""
    print(
        f"random binning: alpha = {COVTYPE_RIDGE:g} / n, {COVTYPE_EPOCHS} conjugate gradient steps;"
    )
    print("squared error, one against the rest. Length scale 1 for all columns (standardised or")
    print("0/1), or (searched) KernelClassifier(loss='squared_error') with nothing else set; its")
    print("search is part of the seconds to fit.")
    for all_classes in (False, True):
        trees = min(options.trees, 20) if options.quick else options.trees
        print("\n7 classes" if all_classes else "\nclass 2 against the rest")
        print(
            f"{'method':36s} {'rows':>8s} {'error %':>8s} {'fit s':>7s} {'predict s':>9s}", end=""
        )
        print(f" {'fit GB':>7s} {'peak GB':>7s} {'others':>8s}")
        # The slow problem is not also measured with few leaves.
        rivals = [
            {"n_grids": 16 if options.quick else n_grids, "search": search, "leaves": None}
            for n_grids, search in COVTYPE_GRIDS[all_classes]
        ]
        rivals += [
            {"n_grids": None, "search": None, "leaves": leaves}
            for leaves in (LEAVES[:1] if all_classes else LEAVES)
        ]
        for rival in rivals:
            settings = {**rival, "trees": trees, "all_classes": all_classes}
            for row in apart(covtype_job, **settings, quick=options.quick):
                label = f"LightGBM, {trees} trees, {rival['leaves']} leaves"
                if "kappa" in row:
                    label = f"random binning, {rival['n_grids'] or 'searched'}"
                    label += " grids" if rival["n_grids"] else ""
                print(
                    f"{label:36s} {row['rows']:8,d} {row['error']:8.2f} {row['fit']:7.2f} "
                    f"{row['predict']:9.2f} {row['extra'] / 1e9:7.2f} {row['peak'] / 1e9:7.2f} "
                    f"{share(row['others']):>8s}",
                    flush=True,
                )


# Products against the machine's memory


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


def run_tiles(function, tiles, n_jobs):
    from rkhs.compute import tile_map

    return lambda: list(tile_map(function, tiles, n_jobs))


def copy_bandwidth(n_bytes, n_jobs):
    """Bytes read and written a second while a long array is copied."""
    from rkhs.compute import slices

    source, target = np.ones(n_bytes, np.uint8), np.zeros(n_bytes, np.uint8)

    def copy(part):
        np.copyto(target[part], source[part])

    return 2 * n_bytes / best(run_tiles(copy, slices(n_bytes, 2**22), n_jobs))


def bin_numbers(kappa, kind, is_sorted, n_rows, n_grids):
    bins = np.random.default_rng(0).integers(kappa, size=(n_grids, n_rows)).astype(kind)
    return np.sort(bins, axis=1) if is_sorted else bins


def products(bins, kappa, n_jobs):
    """The operator's products over given bins, and the bare loops over the same."""
    from rkhs.compute import slices
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
    return {
        "Z @ w": (
            lambda: operator.matmat(w),
            run_tiles(gather_tile, slices(n_rows, _TILE_ROWS), n_jobs),
        ),
        "Z.T @ v": (
            lambda: operator.rmatmat(v, out),
            run_tiles(scatter_grid, range(n_grids), n_jobs),
        ),
    }


def bandwidth_job(quick):
    n_rows, n_grids, n_bytes = (20_000, 8, 2**24) if quick else (ROWS, GRIDS, COPIED_BYTES)
    yield {"copy": [copy_bandwidth(n_bytes, n_jobs) for n_jobs in (1, 2)]}
    for (kappa, kind), is_sorted in product(KAPPAS, (False, True)):
        bins = bin_numbers(kappa, kind, is_sorted, n_rows, n_grids)
        seconds = {}
        with neighbours() as others:
            for n_jobs in (1, 2):
                for name, functions in products(bins, kappa, n_jobs).items():
                    for function in functions:
                        function()  # compiles
                    seconds.setdefault(name, []).extend(best(function) for function in functions)
        for name, (one, bare_one, two, bare_two) in seconds.items():
            per_entry = 1e9 / bins.size
            yield {
                "product": name,
                "kappa": kappa,
                "sorted": is_sorted,
                "bytes": bins.itemsize,
                # Z @ w gathers elements of float32, Z.T @ v adds to elements of float64.
                "rate": bins.size * (bins.itemsize + (4 if name == "Z @ w" else 8)) / two,
                "ns": [second * per_entry for second in (one, two, bare_one, bare_two)],
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


# Sparse models


def l1_model(y, method, size, length_scale, alpha, loss="log_loss", scheme="grid", **settings):
    from rkhs.kernels import Laplacian
    from rkhs.solvers import CoordinateDescent

    solver = CoordinateDescent(tol=settings.pop("tol", 1e-3), scheme=scheme)
    settings = {"penalty": "l1", "loss": loss} | settings
    kernel = Laplacian(length_scale)
    return estimator(y, kernel, features_of(method, size), alpha, solver, **settings)


def l1_speed_job(name, method, scheme, n_jobs, quick):
    """Seconds and objective after each epoch."""
    X, y, _, _ = table(name, quick)
    length_scale = median_distance(X) / 4
    size, seconds = (16, 0.5) if quick else (L1_SIZES[method], L1_SECONDS)
    settings = {"scheme": scheme, "n_jobs": n_jobs, "time_budget": seconds}
    l1_model(y, method, 4, length_scale, L1_ALPHA, **settings, max_epochs=2).fit(X, y)
    model = l1_model(y, method, size, length_scale, L1_ALPHA, **settings)
    with neighbours() as others:
        model.fit(X, y)
    history = [(row["seconds"], row["objective"]) for row in model.history_]
    yield {"history": history, "others": others.share}


def l1_path_job(name, quick):
    """The model with all features, then those of a path of penalties."""
    X, y, X_test, y_test = table(name, quick)
    size = 16 if quick else L1_SIZES["random binning"]
    length_scale = median_distance(X) / 4
    warm_binning(y)
    dense = binning(y, size, length_scale, RIDGE / len(X), EPOCHS)
    row = measure(dense, X, y, X_test, y_test)
    n_features = dense.features_.n_outputs
    yield row | {"label": "l2, squared error", "used": n_features, "of": n_features}
    model = l1_model(y, "random binning", size, length_scale, L1_PATH[0], warm_start=True)
    for alpha in L1_PATH[:2] if quick else L1_PATH:
        row = measure(model.set_params(alpha=alpha), X, y, X_test, y_test)
        used = int(np.count_nonzero(model.expansion_.coef))
        yield row | {"label": f"l1, alpha {alpha:g}", "used": used, "of": n_features}


def l1_optimum_job(quick):
    """The objective that we reach, and the one of scikit-learn on the same features."""
    from sklearn.linear_model import Lasso, LogisticRegression

    X, y, _, _ = table("ijcnn1", quick)
    X, y = X[:OPTIMUM_ROWS], y[:OPTIMUM_ROWS]
    sign, alpha = np.where(y > 0, 1.0, -1.0), OPTIMUM_ALPHA
    losses = {
        "squared_error": lambda f: 0.5 * np.mean((f - sign) ** 2),
        "log_loss": lambda f: np.mean(np.logaddexp(0.0, -sign * f)),
    }
    lasso = Lasso(alpha=alpha, fit_intercept=False, tol=1e-8, max_iter=100_000)
    liblinear = LogisticRegression(
        l1_ratio=1, solver="liblinear", C=1 / (alpha * len(X)), fit_intercept=False, tol=1e-6
    )
    peers = ("squared_error", "Lasso", lasso), ("log_loss", "LIBLINEAR", liblinear)
    for loss, name, peer in peers:
        model = l1_model(
            y, "random binning", OPTIMUM_GRIDS, median_distance(X) / 4, alpha, loss, tol=1e-4
        )
        model.fit(X, y)
        Z = model.features_.transform(X.astype(np.float64))
        w = peer.fit(Z, sign).coef_.ravel()
        ours = losses[loss](model.decision_function(X)) + alpha * _size(model.expansion_.coef)
        theirs = losses[loss](Z @ w) + alpha * _size(w)
        row = {"loss": loss, "peer": name, "rows": len(X)}
        yield row | {"ours": ours, "theirs": theirs}


def l1_hard_job(n_rows, quick):
    """Few large cells a grid, which are correlated, and a small penalty: ours, then Lasso."""
    from sklearn.linear_model import Lasso

    rng = np.random.default_rng(0)
    X = rng.normal(size=(QUICK_ROWS if quick else n_rows, 5))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=len(X))
    size = 16 if quick else HARD_GRIDS
    model = l1_model(y, "random binning", size, HARD_SCALE, HARD_ALPHA, "squared_error", tol=1e-2)
    model.fit(X[:500], y[:500])  # loads compiled code
    Lasso(alpha=1.0).fit(X, y)
    row = measure(model, X, y, X[:100], y[:100])
    Z = model.features_.transform(X).tocsc()
    lasso = Lasso(alpha=HARD_ALPHA, fit_intercept=False)
    with neighbours() as others:
        begin = time.perf_counter()
        w = lasso.fit(Z, y).coef_
        seconds = time.perf_counter() - begin
    theirs = 0.5 * np.mean((Z @ w - y) ** 2) + HARD_ALPHA * _size(w)
    yield row | {
        "rows": len(X),
        "bins": Z.shape[1],
        "objective": model.history_[-1]["objective"],
        "used": int(np.count_nonzero(model.expansion_.coef)),
        "lasso": {"objective": theirs, "used": int(np.count_nonzero(w)), "seconds": seconds},
        "lasso_epochs": int(lasso.n_iter_),
        "others": max(row["others"], others.share),
    }


def _size(coef):
    return float(np.abs(coef).sum())


def l1(options):
    """Coordinate descent: threads (the paper's figure 6), the path, and the optimum."""
    from rkhs.datasets import load

    sizes = ", ".join(f"{method} R = {size}" for method, size in L1_SIZES.items())
    print(f"Length scale: a quarter of the median L1 distance; log loss; {sizes}.")
    print("Seconds to an objective are the solver's alone, after the features.")
    print(f"Two threads at sines, which need no memory: {thread_gain():.2f} times one.")
    for name in L1_SETS[:1] if options.quick else L1_SETS:
        try:
            load(name)
        except ValueError:
            print(f"\n{name} is not in the folder")
            continue
        l1_speed(name, options)
        print(f"\n{name}: the path, random binning")
        print(f"{'model':20s} {'used':>10s} {'of':>10s} {'share':>8s} {'error %':>8s}", end="")
        print(f" {'fit s':>7s} {'predict s':>9s} {'others':>8s}")
        for row in apart(l1_path_job, name=name, quick=options.quick):
            print(
                f"{row['label']:20s} {row['used']:10,d} {row['of']:10,d} "
                f"{share(row['used'] / row['of']):>8s} {row['error']:8.3f} {row['fit']:7.2f} "
                f"{row['predict']:9.3f} {share(row['others']):>8s}",
                flush=True,
            )
    print(f"\nijcnn1: the optimum on the same {OPTIMUM_GRIDS} grids, alpha {OPTIMUM_ALPHA:g}")
    for row in apart(l1_optimum_job, quick=options.quick):
        print(
            f"{row['loss']:14s} {row['rows']:,} rows: ours {row['ours']:.8f}, {row['peer']} "
            f"{row['theirs']:.8f}, difference {row['ours'] / row['theirs'] - 1:+.1e}",
            flush=True,
        )
    print(
        f"\n{HARD_GRIDS} grids of few cells (length scale {HARD_SCALE:g}, 5 normal columns),",
        end="",
    )
    print(f" squared error, alpha {HARD_ALPHA:g}, tol 1e-2; Lasso at its defaults, given the bins")
    for n_rows in HARD_ROWS[:1] if options.quick else HARD_ROWS:
        for row in apart(l1_hard_job, n_rows=n_rows, quick=options.quick):
            lasso = row["lasso"]
            print(
                f"{row['rows']:,} rows, {row['bins']:,} bins: ours {row['objective']:.6f} in "
                f"{row['fit']:.2f} s, {row['epochs']} epochs, {row['used']} used; Lasso "
                f"{lasso['objective']:.6f} in {lasso['seconds']:.2f} s, {row['lasso_epochs']} "
                f"epochs, {lasso['used']} used; others {share(row['others'])}",
                flush=True,
            )


def l1_speed(name, options):
    """Seconds to an objective that is fixed for each kind of features."""
    print(
        f"\n{name}: to an objective {share(L1_GAP).strip()} above the lowest seen, alpha ", end=""
    )
    print(f"{L1_ALPHA:g}, at most {L1_SECONDS:g} s")
    print(
        f"{'features':16s} {'scheme':8s} {'objective':>9s} {'1 thread s':>10s} {'2 s':>8s}", end=""
    )
    print(f" {'times':>6s} {'epochs':>6s} {'others':>8s}")
    for method in L1_SIZES:
        runs = {
            (scheme, n_jobs): row
            for scheme, n_jobs in product(("grid", "random"), (1, 2))
            for row in apart(
                l1_speed_job,
                name=name,
                method=method,
                scheme=scheme,
                n_jobs=n_jobs,
                quick=options.quick,
            )
        }
        points = [objective for row in runs.values() for _, objective in row["history"]]
        target = (1 + L1_GAP) * min(points, default=np.nan)
        for scheme in ("grid", "random"):
            both = [runs[key] for key in ((scheme, 1), (scheme, 2)) if key in runs]
            reached = [first_below(row["history"], target) for row in both]
            if len(reached) < 2 or None in reached:
                lowest = min((o for row in both for _, o in row["history"]), default=np.nan)
                print(f"{method:16s} {scheme:8s} {target:9.5f} not reached (lowest {lowest:.5f})")
                continue
            (one, epochs), (two, _) = reached
            print(
                f"{method:16s} {scheme:8s} {target:9.5f} {one:10.3f} {two:8.3f} {one / two:6.2f} "
                f"{epochs:6d} {share(max(row['others'] for row in both)):>8s}",
                flush=True,
            )


def first_below(history, target):
    """Seconds and number of the first epoch with such an objective, or None."""
    for epoch, (seconds, objective) in enumerate(history, 1):
        if objective <= target:
            return seconds, epoch
    return None


# Bytes


def operator_bytes(operator):
    """Of all bin numbers and of the rows' order."""
    return sum(
        (0 if order is None else order.nbytes) + sum(block.bins.nbytes for block in blocks)
        for _, order, blocks in operator._chunks
    )


def memory_job(n_grids, quick):
    """Bytes of the operator and of its dictionary, and of CSR; then the peak of a fit."""
    from rkhs.data import RowSource
    from rkhs.features import RandomBinning
    from rkhs.kernels import Laplacian

    X, y, X_test, y_test = table("covtype", quick)
    warm_binning(y)
    model = binning(y, n_grids, 1.0, COVTYPE_RIDGE / len(X), COVTYPE_EPOCHS)
    row = measure(model, X, y, X_test, y_test)
    features = RandomBinning(n_grids, kernel=Laplacian(1.0), random_state=0)
    source = RowSource(X)
    operator = features.fit_rows(source, np.ones(len(X)), np.float32).operator(source)
    few = X[:QUICK_ROWS].astype(np.float64)
    csr = features.transform(few)
    csr_bytes = csr.data.nbytes + csr.indices.nbytes + csr.indptr.nbytes
    entries = len(X) * n_grids
    yield row | {
        "operator": operator_bytes(operator) / entries,
        "csr": csr_bytes / (len(few) * n_grids),
        "dictionary": features.nbytes / entries,
        "fit_extra": row["extra"] / entries,
    }


def memory(options):
    """Bytes a row and grid, next to scipy's CSR."""
    print("covtype, class 2 against the rest; bytes a row and grid. CSR: measured on the features")
    print("of a few rows in float64 (8 bytes a value, 4 an index). Fit: what the peak grew by in a")
    print("fit, all vectors and dictionaries included.")
    print(
        f"{'grids':>5s} {'kappa':>8s} {'operator':>8s} {'scipy CSR':>9s} {'dictionary':>10s}",
        end="",
    )
    print(f" {'fit':>6s} {'fit GB':>7s} {'others':>8s}")
    for n_grids in MEMORY_GRIDS[:1] if options.quick else MEMORY_GRIDS:
        for row in apart(memory_job, n_grids=n_grids, quick=options.quick):
            print(
                f"{n_grids:5d} {row['kappa']:8,.0f} {row['operator']:8.2f} {row['csr']:9.2f} "
                f"{row['dictionary']:10.2f} {row['fit_extra']:6.2f} {row['extra'] / 1e9:7.2f} "
                f"{share(row['others']):>8s}",
                flush=True,
            )


SECTIONS = {f.__name__: f for f in (figure5, covtype, bandwidth, l1, memory)}
JOBS = {name: f for name, f in globals().items() if name.endswith("_job")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="2,000 rows of each table, small R")
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS, help="of figure5")
    parser.add_argument("--largest", type=int, default=max(SIZES), help="R of figure5")
    parser.add_argument("--longest", type=float, default=120.0, help="seconds of a fit of figure5")
    parser.add_argument("--trees", type=int, default=TREES, help="of LightGBM on covtype")
    options = parser.parse_args()
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    if options.quick:
        options.largest = min(options.largest, 64)
    print(describe())
    if options.quick:
        print(f"--quick: {QUICK_ROWS:,} rows, small sizes, nothing tuned, one process: no results")
        warnings.simplefilter("ignore")
    for name in options.sections or SECTIONS:
        print(f"\n== {name}: {SECTIONS[name].__doc__}\n", flush=True)
        SECTIONS[name](options)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        for result in JOBS[sys.argv[2]](**json.loads(sys.argv[3])):
            print(json.dumps(result), flush=True)
    else:
        main()
