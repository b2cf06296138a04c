"""Figure 5 of the paper: error and seconds at equal R."""

from itertools import product

import numpy as np

from _binning.common import (
    REGRESSION,
    apart,
    error_of,
    estimator,
    features_of,
    measure,
    median_distance,
    share,
    table,
    warm_binning,
)

SETS = ["covtype", "ijcnn1", "california_housing", "mnist", "letter"]
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
    for method in options.methods:
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
