"""Doubly stochastic gradients: their rate, what they reach, and how fast.

Data from the folder that RKHS_DATA names. "others" is the share of the CPU that other
processes took meanwhile.

    RKHS_DATA=folder python benchmarks/doubly_stochastic.py               # everything
    RKHS_DATA=folder python benchmarks/doubly_stochastic.py rate stream   # some sections
    RKHS_DATA=folder python benchmarks/doubly_stochastic.py --quick       # does it run at all?
"""

import argparse
import sys
import time
import warnings
from multiprocessing import get_context

import numpy as np
from _machine import best, describe, neighbours, peak_bytes

METHODS = ["DSG", "UDSG", "CDSG"]

RATE_ALPHA, RATE_STEPS, RATE_SEEDS = 0.2, 3000, 4
MNIST_SCALE, MNIST_ALPHA = 6.0, 1e-7  # pixels from 0 to 1
MNIST_BEST, MNIST_BEST_SCALE = (16_384, 2048, 36), 5.0
FIGURE_SETS = ["cifar10_pca256", "covtype", "california_housing", "a9a"]
FIGURE_ROWS, FIGURE_SECONDS, FIGURE_ALPHA = 50_000, 20.0, 1e-6
SVM_SETS, SVM_ROWS = ["cifar10_pca256", "covtype", "a9a"], 20_000
STREAM_ROWS, STREAM_COLUMNS, STREAM_PART = 10_000_000, 50, 100_000
ALL_SETS = [
    *("a9a", "adult", "bank_marketing", "beijing_air", "california_housing", "census_income_kdd"),
    *("cifar10_pca256", "cod_rna_train", "covtype", "cpu", "diamonds", "flights3m"),
    *("house_16h_binary", "ijcnn1", "kddcup99_10pct", "letter", "magic", "mnist", "qm7"),
    *("susy_30k", "uci_bike", "uci_keggdirected"),
]


def solver(name, **options):
    from rkhs import solvers

    return getattr(solvers, name)(**options)


def components(X, X_test, count):
    """Principal components, the first `count` columns of them."""
    mean = X.mean(axis=0)
    _, vectors = np.linalg.eigh(np.cov((X - mean).T))
    top = vectors[:, ::-1][:, :count].astype(np.float32)
    return (X - mean) @ top, (X_test - mean) @ top


def table(name, n_rows=None):
    """Rows and targets to train and to test with, numeric columns standardised."""
    from rkhs.datasets import load

    X, y, X_test, y_test = load(name)
    X = X.reshape(len(X), -1)
    if X_test is None:
        order = np.random.default_rng(0).permutation(len(X))
        cut = int(0.8 * len(X))
        X, y, X_test, y_test = X[order[:cut]], y[order[:cut]], X[order[cut:]], y[order[cut:]]
    if n_rows is not None and n_rows < len(X):
        few = np.random.default_rng(1).permutation(len(X))[:n_rows]
        X, y = X[few], y[few]
    return X, y, X_test[:20_000], y_test[:20_000]


def standardised(X, X_test):
    mean, scale = X.mean(axis=0), X.std(axis=0)
    scale[scale == 0] = 1.0
    return ((X - mean) / scale).astype(np.float32), ((X_test - mean) / scale).astype(np.float32)


def is_regression(y):
    return y.dtype.kind == "f" and len(np.unique(y[:2000])) > 50


def median_distance(X):
    pairs = np.random.default_rng(0).integers(len(X), size=(2, 4000))
    return float(np.median(np.linalg.norm(X[pairs[0]] - X[pairs[1]], axis=1)))


def rate(arguments):
    """Mean squared distance to the exact minimiser against the number of steps."""
    from rkhs import KernelRegressor

    steps = 400 if arguments.quick else RATE_STEPS
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    common = {"kernel": "gaussian", "length_scale": 1.0, "alpha": RATE_ALPHA}
    wanted = KernelRegressor(solver="exact", **common).fit(X, y).predict(X)
    marks = np.unique(np.geomspace(100, steps, 12).astype(int))
    curves = {}
    for name in arguments.methods:
        distances = np.zeros((RATE_SEEDS, len(marks)))
        for seed in range(RATE_SEEDS):
            draw = np.random.default_rng(seed)
            method = solver(
                name, step="gradient", step_size=1 / RATE_ALPHA, batch_size=8, block_size=8
            )
            model, done = KernelRegressor(solver=method, random_state=seed, **common), 0
            for k, mark in enumerate(marks):
                rows = draw.integers(len(X), size=8 * (mark - done))
                model.partial_fit(X[rows], y[rows])
                distances[seed, k] = np.mean((model.predict(X) - wanted) ** 2)
                done = mark
        curves[name] = distances.mean(axis=0)
        slope = np.polyfit(np.log(marks), np.log(curves[name]), 1)[0]
        print(f"  {name:5s} distance {curves[name][0]:.2e} at t = {marks[0]}, ", end="")
        print(f"{curves[name][-1]:.2e} at t = {marks[-1]:,}; slope {slope:+.2f}", end="")
        print(f", {len(model.expansion_.coef):,} features")
    if arguments.plot:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        figure, axes = pyplot.subplots()
        for name, values in curves.items():
            axes.loglog(marks, values, "o-", label=name)
        axes.loglog(marks, values[0] * marks[0] / marks, "k:", label="1 / t")
        axes.set(xlabel="steps", ylabel="mean squared distance to the minimum")
        axes.legend()
        figure.savefig(arguments.plot)
        print(f"  plot in {arguments.plot}")


def traced(model, X, y, n_epochs, batch, measure, marks, seconds=np.inf):
    """Stream rows in random order, epoch after epoch; what `measure` says at some steps."""
    rng, spent, count = np.random.default_rng(0), 0.0, 0
    for _ in range(n_epochs):
        order = rng.permutation(len(X))
        for start in range(0, len(order) - batch + 1, batch):
            rows = order[start : start + batch]
            begin = time.perf_counter()
            model.partial_fit(X[rows], y[rows])
            spent += time.perf_counter() - begin
            count += 1
            if count in marks or spent > seconds:
                yield count, spent, measure(model)
            if spent > seconds:
                return


def digits(arguments):
    """MNIST on 100 components: a function that streams it through a method and says how it goes."""
    from rkhs import KernelClassifier

    X, y, X_test, y_test = table("mnist", 4000 if arguments.quick else None)
    X, X_test = components(X.astype(np.float32) / 255, X_test.astype(np.float32) / 255, 100)
    few = np.random.default_rng(0).permutation(len(X))[:10_000]

    def measure(model):
        loss = -np.mean(
            model.predict_log_proba(X[few])[
                np.arange(len(few)), np.searchsorted(model.classes_, y[few])
            ]
        )
        coef = model.expansion_.coef.astype(np.float64)
        objective = loss + 0.5 * MNIST_ALPHA * np.vdot(coef, coef)
        return objective, loss, 100 * (1 - model.score(X_test, y_test)), len(coef)

    def run(name, step, batch, block, n_steps, length_scale=MNIST_SCALE):
        method = solver(name, step=step, batch_size=batch, block_size=block)
        model = KernelClassifier(
            kernel="gaussian",
            length_scale=length_scale,
            alpha=MNIST_ALPHA,
            solver=method,
            random_state=0,
        )
        n_epochs = -(-n_steps // max(1, len(X) // batch))
        marks = {n_steps // 4, n_steps // 2, 3 * n_steps // 4, n_steps}
        rows = []
        for count, seconds, (objective, loss, error, size) in traced(
            model, X, y, n_epochs, batch, measure, marks
        ):
            epochs = count * batch / len(X)
            print(f"  {name:5s} {step:8s} B {batch:5d} F {block:4d} step {count:4d}", end="")
            print(f" ({epochs:4.1f} epochs): objective {objective:.4f}, loss {loss:.4f}, ", end="")
            print(f"test error {error:5.2f} %, {size:6,} features, {seconds:5.1f} s", flush=True)
            rows.append((objective, size, seconds))
            if count >= n_steps:
                break
        return rows

    return run


def mnist(arguments):
    """MNIST on 100 components, softmax: the three methods, both kinds of step."""
    run = digits(arguments)
    batch, block, n_steps = (512, 64, 8) if arguments.quick else (4096, 512, 100)
    finals = {name: run(name, "newton", batch, block, n_steps) for name in METHODS}
    goal = finals["DSG"][-1]
    print(f"  DSG ends at {goal[0]:.4f} with {goal[1]:,} features after {goal[2]:.1f} s", end="")
    reached = [row for row in finals["CDSG"] if row[0] <= goal[0]] or finals["CDSG"][-1:]
    value, size, seconds = reached[0]
    print(f"; CDSG at {value:.4f} with {size / goal[1]:.0%} of them in {seconds / goal[2]:.0%}")
    for name in METHODS:
        run(name, "gradient", batch, block, n_steps // 4)


def mnist_best(arguments):
    """MNIST with settings that were chosen on 10,000 held-out training digits."""
    size = (512, 64, 8) if arguments.quick else MNIST_BEST
    digits(arguments)("UDSG", "newton", *size, length_scale=MNIST_BEST_SCALE)


def figures(arguments):
    """Training objective against seconds: ours, and SVRG on fixed features."""
    from rkhs import KernelClassifier, KernelRegressor
    from rkhs.features import RandomFourier

    first = 0
    names = [name for name in FIGURE_SETS if name in arguments.sets]
    for name in names:
        X, y, X_test, _ = table(name, 3000 if arguments.quick else FIGURE_ROWS)
        if name == "covtype":
            y = (y == 2).astype(int)
        X, X_test = standardised(X, X_test) if "cifar" not in name else (X, X_test)
        if X.shape[1] > 100:
            X, X_test = components(X.astype(np.float32), X_test.astype(np.float32), 100)
        kind = KernelRegressor if is_regression(y) else KernelClassifier
        y = (y - y.mean()) / y.std() if is_regression(y) else y
        scale = median_distance(X)
        few = np.random.default_rng(0).permutation(len(X))[:10_000]

        def measure(model, X=X, y=y, few=few):
            coef = model.expansion_.coef.astype(np.float64)
            penalty = 0.5 * FIGURE_ALPHA * np.vdot(coef, coef)
            if is_regression(y):
                return 0.5 * np.mean((model.predict(X[few]) - y[few]) ** 2), penalty
            codes = np.searchsorted(model.classes_, y[few])
            return -np.mean(model.predict_log_proba(X[few])[np.arange(len(few)), codes]), penalty

        seconds = 2.0 if arguments.quick else FIGURE_SECONDS
        batch, block = (512, 64) if arguments.quick else (4096, 256)
        common = {"kernel": "gaussian", "length_scale": scale, "alpha": FIGURE_ALPHA}
        print(
            f"  {name}, {len(X):,} rows: training objective (loss) after {seconds:.0f} s; ", end=""
        )
        print("by the history the loss (rows before their own step) at a quarter and half of them")
        reached = {}
        methods = {
            name: {"solver": solver(name, tol=0.0, batch_size=batch, block_size=block)}
            for name in METHODS
        }
        fixed = RandomFourier(4 * block)
        methods["SVRG"] = {"solver": solver("SVRG", tol=0.0), "features": fixed}
        for method, axes in methods.items():
            model = kind(
                **axes, **common, random_state=arguments.seed, max_epochs=10**6, time_budget=seconds
            ).fit(X, y)
            loss, penalty = measure(model)
            reached[method] = loss + penalty
            past = [
                [row["objective"] for row in model.history_ if row["seconds"] <= part * seconds]
                for part in (0.25, 0.5)
            ]
            text = ", ".join(f"{values[-1]:.4f}" if values else "-" for values in past)
            print(f"    {method:5s} {reached[method]:.4f} ({loss:.4f}); {text}; ", end="")
            print(f"{len(model.expansion_.coef):,} features, ", end="")
            print(f"{model.history_[-1]['seconds']:.1f} s", flush=True)
        first += reached["CDSG"] <= 1.02 * min(reached.values())
    print(f"  CDSG first or within 2 % of the first on {first} of {len(names)}")


def table3(arguments):
    """Training error (and test error) when LIBSVM converges: pairs of classes, as it has them."""
    from sklearn.multiclass import OneVsOneClassifier
    from sklearn.svm import SVC

    from rkhs import KernelClassifier

    for name in [name for name in SVM_SETS if name in arguments.sets]:
        X, y, X_test, y_test = table(name, 2000 if arguments.quick else SVM_ROWS)
        if name == "covtype":
            y, y_test = (y == 2).astype(int), (y_test == 2).astype(int)
        X, X_test = standardised(X, X_test) if "cifar" not in name else (X, X_test)
        if X.shape[1] > 100:
            X, X_test = components(X.astype(np.float32), X_test.astype(np.float32), 100)
        X_test, y_test = X_test[:5000], y_test[:5000]
        scale = median_distance(X)
        begin = time.perf_counter()
        peer = SVC(gamma=0.5 / scale**2, cache_size=2000).fit(X, y)
        seconds = time.perf_counter() - begin

        def errors(model, X=X, y=y, X_test=X_test, y_test=y_test):
            train, test = 100 * (1 - model.score(X, y)), 100 * (1 - model.score(X_test, y_test))
            return f"{train:.2f} % (test {test:.2f} %)"

        print(f"  {name}: LIBSVM {errors(peer)} in {seconds:.1f} s", end="")
        n_classes = len(np.unique(y))
        n_pairs = n_classes * (n_classes - 1) // 2
        for method in METHODS:
            # alpha is 1 / n: SVC's C, 1 / (alpha n), is 1 as well.
            model = KernelClassifier(
                kernel="gaussian",
                loss="hinge",
                solver=solver(method, tol=0.0),
                length_scale=scale,
                time_budget=seconds / n_pairs,
                max_epochs=1000,
                random_state=0,
            )
            if n_pairs > 1:
                model = OneVsOneClassifier(model)
            begin = time.perf_counter()
            model.fit(X, y)
            took = time.perf_counter() - begin
            print(f"; {method} {errors(model)} in {took:.1f} s", end="", flush=True)
        print()


def stream(arguments):
    """An endless table through `partial_fit`."""
    from sklearn.base import clone

    from rkhs import KernelRegressor

    n_parts = (1_000_000 if arguments.quick else STREAM_ROWS) // STREAM_PART
    weights = np.random.default_rng(0).normal(size=(STREAM_COLUMNS, 3)) / np.sqrt(STREAM_COLUMNS)

    def part(seed):
        X = (
            np.random.default_rng(seed)
            .normal(size=(STREAM_PART, STREAM_COLUMNS))
            .astype(np.float32)
        )
        a = X @ weights
        return X, np.sin(a[:, 0]) + a[:, 1] * a[:, 2]

    model = KernelRegressor(
        kernel="gaussian",
        length_scale=10.0,
        alpha=1e-7,
        random_state=0,
        solver=solver("UDSG", batch_size=50_000, block_size=256),
    )
    X_test, y_test = part(10**6)
    model.partial_fit(X_test[:2000], y_test[:2000])  # compiles
    model = clone(model)
    before, begin = peak_bytes(), time.perf_counter()
    for k in range(n_parts):
        model.partial_fit(*part(k))
        if (k + 1) % max(1, n_parts // 10) == 0:
            seconds = time.perf_counter() - begin
            error = np.mean((model.predict(X_test[:20_000]) - y_test[:20_000]) ** 2) / y_test.var()
            print(
                f"  {(k + 1) * STREAM_PART:11,} rows: error {error:.4f} of the variance, ", end=""
            )
            print(f"{len(model.expansion_.coef):,} features, {seconds:.0f} s, ", end="")
            print(f"peak {(peak_bytes() - before) / 1e6:.0f} MB beyond the start", flush=True)


def limits(arguments):
    """Prediction and a block's gradient against the bare product of the same shape, d = 100."""
    from rkhs.compute import tile_map, transposed_times
    from rkhs.data import RowSource
    from rkhs.features import RandomFourier
    from rkhs.kernels import Gaussian

    rng = np.random.default_rng(0)
    rows, width, columns = 8192, 8192, 100
    X = rng.normal(size=(rows, columns)).astype(np.float32)
    right = rng.normal(size=(columns, width)).astype(np.float32)
    out = np.empty((rows, width), np.float32)
    block_out = np.empty((rows, 1024), np.float32)
    features = RandomFourier(width, Gaussian(10.0), random_state=0).fit(X)
    source = RowSource(X)
    for outputs in (1, 10):
        W = rng.normal(size=(width, outputs)).astype(np.float32)
        V = rng.normal(size=(rows, outputs)).astype(np.float32)
        tiles = [slice(i, i + 512) for i in range(0, rows, 512)]

        def gradient(W=W, V=V, tiles=tiles):
            # As a step has it: the function on the batch, then the gradient of a new block.
            f = features.evaluate(source, W)

            def part(tile):
                features.write_pairs(X[tile], 4096, 4608, block_out[tile])
                return transposed_times(block_out[tile], V[tile] - f[tile])

            sum(tile_map(part, tiles))

        functions = [
            lambda: np.matmul(X, right, out=out),
            lambda W=W: features.evaluate(source, W),
            gradient,
        ]
        for function in functions:
            function()
        bare, predicted, derived = (best(function, 7) for function in functions)
        print(f"  {outputs:2d} outputs: prediction {predicted / bare:.2f}, ", end="")
        derived /= bare * (width + 1024) / width
        print(f"gradient {derived:.2f} of the bare product ({bare * 1e3:.0f} ms)")


def divergence(arguments):
    """Defaults on every table, each loss, standardised and raw: is the loss ever above zero's?"""
    from rkhs import KernelClassifier, KernelRegressor
    from rkhs.losses import LOSSES

    worst, count = 0.0, 0
    for name in ALL_SETS[:3] if arguments.quick else arguments.sets:
        try:
            X, y, X_test, _ = table(name, 1500)
        except (OSError, ValueError) as problem:
            print(f"  {name}: {problem}")
            continue
        number = is_regression(y)
        task = "regression" if number else "classification"
        kind = KernelRegressor if number else KernelClassifier
        if not number and np.bincount(np.unique(y, return_inverse=True)[1]).min() < 2:
            frequent = np.isin(y, [c for c in np.unique(y) if (y == c).sum() > 1])
            X, y = X[frequent], y[frequent]
        for rows in (np.nan_to_num(X), standardised(np.nan_to_num(X), X_test)[0]):
            for loss in {key: kind_ for key, kind_ in LOSSES.items() if task in kind_.tasks}:
                if loss == "softmax" and len(np.unique(y)) == 2:
                    continue
                for method in METHODS:
                    model = kind(
                        kernel="gaussian",
                        loss=loss,
                        solver=solver(method),
                        max_epochs=2,
                        random_state=0,
                    ).fit(rows, y)
                    f = model.decision_function(rows) if not number else model.predict(rows)
                    f = np.asarray(f, np.float64).reshape(len(rows), -1)
                    if number:
                        target = y.astype(np.float64)[:, None]
                    else:
                        codes = np.searchsorted(model.classes_, y)
                        target = model.loss_.encode(codes, len(model.classes_))
                    share = model.loss_.value(f, target) / model.loss_.value(0 * f, target)
                    worst, count = max(worst, share if np.isfinite(share) else np.inf), count + 1
                    if not share <= 1.0:
                        print(f"  {name} {loss} {method}: {share:.3f} of the loss of zero")
    print(f"  {count} fits; the largest training loss is {worst:.3f} of that of zero")


SECTIONS = {
    "rate": rate,
    "mnist": mnist,
    "mnist_best": mnist_best,
    "figures": figures,
    "table3": table3,
    "stream": stream,
    "limits": limits,
    "divergence": divergence,
}


def section(name, arguments):
    warnings.simplefilter("ignore")
    print(f"{name}: {SECTIONS[name].__doc__.splitlines()[0]}", flush=True)
    with neighbours() as others:
        SECTIONS[name](arguments)
    print(f"  other processes took {100 * others.share:.1f} % of the CPU meanwhile", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], default=[])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sets", nargs="*", choices=ALL_SETS, default=ALL_SETS)
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=METHODS)
    parser.add_argument("--seed", type=int, default=0, help="of the models of figures")
    parser.add_argument("--plot", help="file for the plot of the rate")
    arguments = parser.parse_args()
    print(describe(), flush=True)
    for name in arguments.sections or SECTIONS:
        # Each in a process of its own: peak memory is that of a section.
        process = get_context("spawn").Process(target=section, args=(name, arguments))
        process.start()
        process.join()
        if process.exitcode:
            sys.exit(f"{name} failed.")


if __name__ == "__main__":
    main()
