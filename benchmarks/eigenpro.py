"""EigenPro: what it converges to, in how many epochs, and what an epoch costs.

Data from the folder that RKHS_DATA names; tables that are not there are left out. "others" is
the share of the CPU that other processes took meanwhile.

    RKHS_DATA=folder python benchmarks/eigenpro.py                    # everything
    RKHS_DATA=folder python benchmarks/eigenpro.py exact overhead     # some sections
    RKHS_DATA=folder python benchmarks/eigenpro.py epochs --sets mnist --kernels gaussian
    RKHS_DATA=folder python benchmarks/eigenpro.py mnist --methods eigenpro
    RKHS_DATA=folder python benchmarks/eigenpro.py --quick            # does it run at all?
"""

import argparse
import time
import warnings
from functools import cache
from itertools import count

import numpy as np
from _machine import describe, neighbours
from scipy.linalg import cho_factor, cho_solve

from rkhs import KernelClassifier, KernelRegressor
from rkhs.compute import single_threaded_blas
from rkhs.data import RowSource
from rkhs.datasets import load
from rkhs.features import Nystrom, RandomFourier
from rkhs.kernels import Exponential, Gaussian, RationalQuadratic
from rkhs.losses import SquaredError
from rkhs.operators import KernelOperator
from rkhs.problem import Problem
from rkhs.solvers import SGD, ConjugateGradient, EigenPro, Pegasos

QUICK_ROWS = 1500
# The scales of the authors' own program for MNIST; elsewhere in proportion to the median distance.
MNIST_MEDIAN = 10.24
KERNELS = {
    "gaussian": lambda median: Gaussian(5.0 * median / MNIST_MEDIAN),
    "exponential": lambda median: Exponential(10.0 * median / MNIST_MEDIAN),
    # 1 / (1 + r^2 / 40)
    "cauchy": lambda median: RationalQuadratic(np.sqrt(20.0) * median / MNIST_MEDIAN),
}
PAPER = {
    "mnist": {"gaussian": (7, 77), "exponential": (4, 143), "cauchy": (7, 78)},
    "cifar10_pca256": {"gaussian": (5, 56), "exponential": (13, 136), "cauchy": (6, 107)},
    "svhn": {"gaussian": (8, 54), "exponential": (14, 297), "cauchy": (17, 191)},
}
PAPER_BATCH = 256
CHECKS = 4  # of the test error an epoch
PENALTIES = (0.0, 0.03, 0.3)  # alpha times rows
# Rows and random features of a comparison on features.
FEATURE_CASES = [
    ("covtype", 50_000, 4000),
    ("beijing_air", 50_000, 4000),
    ("year_prediction_msd", 50_000, 4000),
    ("mnist", 60_000, 4000),
    ("mnist", 10_000, 10_000),
]
KEEP = 8 * 10**9  # bytes of kernel tiles that stay between epochs
LOSS = SquaredError()


@cache
def images(name):
    """Training and test images in units of full brightness, and the median distance."""
    X, y, X_test, y_test = load(name)
    scale = 255.0 if X.dtype == np.uint8 else 1.0
    X, X_test = (np.asarray(part, np.float32) / np.float32(scale) for part in (X, X_test))
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order].astype(int)
    few = X[:1000].astype(np.float64)
    squares = (few**2).sum(axis=1)
    distances = np.sqrt(np.maximum(squares[:, None] + squares - 2 * few @ few.T, 0))
    return X, y, X_test, y_test.astype(int), float(np.median(distances[np.triu_indices(1000, 1)]))


def whole_space(kernel, X, target, alpha=0.0, keep=0):
    source, weight = RowSource(X), np.full(len(X), 1 / len(X))
    operator = KernelOperator(kernel, source, source, np.float32, keep)
    return Problem(kernel, LOSS, None, alpha, source, target, weight, operator)


def errors_of(problem, solver, test, labels, checks=1):
    """Epochs, share of test rows whose class is wrong and seconds, so many times an epoch."""
    begin = time.perf_counter()
    state = solver.init(problem)
    seconds = time.perf_counter() - begin
    for epoch in count():
        batches = state.space.batches(epoch)
        for part in np.array_split(np.arange(len(batches)), checks):
            begin = time.perf_counter()
            with single_threaded_blas:
                for number in part:
                    state.space.advance(state.coef, batches[number], state.rate)
            seconds += time.perf_counter() - begin
            wrong = test.matmat(state.coef).argmax(axis=1) != labels
            yield epoch + (part[-1] + 1) / len(batches), float(wrong.mean()), seconds


def fitted(model, X, y):
    """Seconds of a fit, and who else was running."""
    with neighbours() as found:
        begin = time.perf_counter()
        model.fit(X, y)
        return time.perf_counter() - begin, found


def exact(options):
    """Largest difference of predictions from exact kernel regression, over the largest target."""
    n_rows = QUICK_ROWS if options.quick else 2000
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows + 1000, 5))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=len(X))
    cases = [
        (Gaussian(2.0), 1e-4),
        (Exponential(3.0), 0.0),
        (Exponential(3.0), 1e-5),
        (RationalQuadratic(2.0), 1e-4),
        (5.0 * Exponential(2.0), 0.0),
        (0.2 * Gaussian(2.0) + 3.0 * Exponential(4.0), 1e-5),
    ]
    print(f"{'kernel':58s} {'alpha':>6s} {'epochs':>7s} {'difference':>11s}")
    for kernel, alpha in cases:
        model = KernelRegressor(kernel, features=None, solver="exact", alpha=alpha)
        truth = model.fit(X[:n_rows], y[:n_rows]).predict(X)
        model.set_params(solver=EigenPro(tol=1e-10), max_epochs=300, random_state=0)
        ours = model.fit(X[:n_rows], y[:n_rows]).predict(X)
        difference = np.abs(ours - truth).max() / np.abs(y).max()
        print(f"{kernel!s:58.58s} {alpha:6.0e} {model.n_iter_:7d} {difference:11.1e}", flush=True)


def _until(wanted, most, errors):
    """Epochs, whether they were enough, and seconds."""
    for epoch, error, seconds in errors:
        if error <= wanted or epoch >= most:
            return epoch, error <= wanted, seconds
    raise AssertionError


def _best_exact(kernel, X, target, test, labels):
    """The least test error of exact kernel regression, and its penalty times rows."""
    gram = kernel(X.astype(np.float64))
    found = []
    for penalty in PENALTIES:
        ridged = gram.copy()
        ridged[np.diag_indices_from(ridged)] += penalty + 1e-9
        factor = cho_factor(ridged, lower=True, overwrite_a=True, check_finite=False)
        wrong = test.matmat(cho_solve(factor, target)).argmax(axis=1) != labels
        found.append((float(wrong.mean()), penalty))
    return min(found)


def epochs(options):
    """Epochs until the test error is that of the best exact classifier, with its penalty."""
    n_rows = QUICK_ROWS if options.quick else options.rows
    most = 20 if options.quick else options.longest
    print(f"{n_rows:,} training rows, the error checked {CHECKS} times an epoch (of Pegasos once).")
    print(f"EigenPro as it comes and at the paper's batch of {PAPER_BATCH}; Pegasos at that.\n")
    print(f"{'':>26s} {'penalty':>8s} {'exact':>7s} {'EigenPro':>9s} {'at 256':>7s}", end=" ")
    print(f"{'Pegasos':>8s} {'accel.':>7s} {'paper':>12s}")
    for name in options.sets:
        try:
            X, y, X_test, y_test, median = images(name)
        except ValueError:
            print(f"{name}: not in the folder")
            continue
        X, y = X[:n_rows], y[:n_rows]
        target = LOSS.encode(y, 10)
        for kind in options.kernels:
            kernel = KERNELS[kind](median)
            test = KernelOperator(kernel, RowSource(X_test), RowSource(X), np.float32, KEEP)
            wanted, penalty = _best_exact(kernel, X, target, test, y_test)
            problem = whole_space(kernel, X, target, penalty / n_rows, KEEP)
            row = f"{name:>14s} {kind:11s} {penalty:8g} {wanted:7.2%}"
            counts = []
            for width, checks, solver in (
                (9, CHECKS, EigenPro(tol=0.0)),
                (7, CHECKS, EigenPro(tol=0.0, batch_size=PAPER_BATCH)),
                (8, 1, Pegasos(tol=0.0, batch_size=PAPER_BATCH)),
            ):
                run = errors_of(problem, solver, test, y_test, checks)
                epoch, reached, _ = _until(wanted, most, run)
                counts.append(epoch)
                row += f" {('' if reached else '>') + format(epoch, '.2f'):>{width}s}"
            ratio = ("" if reached else ">") + format(counts[2] / counts[1], ".0f")
            paper = "{} / {}".format(*PAPER[name][kind])
            print(f"{row} {ratio:>7s} {paper:>12s}", flush=True)


def whole(options):
    """All of MNIST: epochs until the test error is that of exact kernel regression, no penalty."""
    X, y, X_test, y_test, median = images("mnist")
    if options.quick:
        X, y = X[:QUICK_ROWS], y[:QUICK_ROWS]
    kernel, target = KERNELS["exponential"](median), LOSS.encode(y, 10)
    test = KernelOperator(kernel, RowSource(X_test), RowSource(X), np.float32)
    problem = whole_space(kernel, X, target)
    # In float32, for 14 GB: a kernel with a kink at zero has no small eigenvalues. The residual,
    # from the operator's own values, says whether that will do.
    factor = cho_factor(kernel(X).T, lower=True, overwrite_a=True, check_finite=False)
    coef = cho_solve(factor, target.astype(np.float32), check_finite=False).astype(np.float64)
    del factor
    residual = np.linalg.norm(problem.evaluate(coef) - target) / np.linalg.norm(target)
    wanted = float((test.matmat(coef).argmax(axis=1) != y_test).mean())
    print(f"exact: {wanted:.2%} test error, residual {residual:.1e} of the targets", flush=True)
    for name, solver in (
        ("EigenPro", EigenPro(tol=0.0)),
        (f"EigenPro, batch {PAPER_BATCH}", EigenPro(tol=0.0, batch_size=PAPER_BATCH)),
        (f"Pegasos, batch {PAPER_BATCH}", Pegasos(tol=0.0, batch_size=PAPER_BATCH)),
    ):
        for epoch, error, seconds in errors_of(problem, solver, test, y_test):
            print(f"{name:24s} epoch {epoch:3.0f} {error:7.2%} {seconds:8.1f} s", flush=True)
            if error <= wanted or epoch >= options.whole_epochs:
                break


def mnist(options):
    """MNIST, all 60,000 rows: test error and time of a fit, predictions apart."""
    X, y, X_test, y_test, median = images("mnist")
    if options.quick:
        X, y = X[:QUICK_ROWS], y[:QUICK_ROWS]
    methods = {
        "eigenpro": _fit_eigenpro,
        "falkon": _fit_falkon,
        "svc": _fit_svc,
    }
    for name in options.methods:
        methods[name](X, y, X_test, y_test, median, options)


def _report(name, error, seconds, others):
    print(f"{name:60s} {error:7.2%} {seconds:8.1f} s   others {others:.0%}", flush=True)


def _fit_eigenpro(X, y, X_test, y_test, median, options):
    for kind in options.kernels:
        kernel = KERNELS[kind](median)
        problem = whole_space(kernel, X, LOSS.encode(y, 10))
        test = KernelOperator(kernel, RowSource(X_test), RowSource(X), np.float32)
        run = errors_of(problem, EigenPro(tol=0.0), test, y_test)
        for _ in range(options.epochs):
            with neighbours() as found:
                epoch, error, seconds = next(run)
            _report(f"EigenPro, {kind}, epoch {epoch:.0f}", error, seconds, found.share)


def _fit_falkon(X, y, X_test, y_test, median, options):
    for n_centers in options.centers:
        model = KernelClassifier(
            KERNELS["gaussian"](median),
            "squared_error",
            features=Nystrom(min(n_centers, len(X))),
            solver=ConjugateGradient(tol=1e-2),
            alpha=1e-7,
            max_epochs=20,
            random_state=0,
        )
        seconds, found = fitted(model, X, y)
        error = 1.0 - model.score(X_test, y_test)
        name = f"Nystrom + CG, gaussian, {n_centers:,} centres, {model.n_iter_} steps"
        _report(name, error, seconds, found.share)


def _fit_svc(X, y, X_test, y_test, median, options):
    try:
        from sklearnex.svm import SVC
    except ImportError:
        print("scikit-learn-intelex is not installed")
        return
    model = SVC(C=10.0, gamma=0.5 / KERNELS["gaussian"](median).length_scale ** 2)
    seconds, found = fitted(model, X, y)
    error = 1.0 - model.score(X_test, y_test)
    _report("scikit-learn-intelex SVC, C=10", error, seconds, found.share)


def _best_in_turn(functions, repeats):
    """The fastest of several runs of each, taken in turn: a slow moment is everybody's."""
    times = np.empty((repeats, len(functions)))
    for row in times:
        for number, function in enumerate(functions):
            begin = time.perf_counter()
            function()
            row[number] = time.perf_counter() - begin
    return times.min(axis=0)


def overhead(options):
    """Seconds of an epoch over those of the bare product K(X, X) @ A of the same tiles."""
    n_rows = QUICK_ROWS if options.quick else 20_000
    rng = np.random.default_rng(0)
    print(f"{n_rows:,} rows, 10 outputs, no tile kept, best of {options.repeats} in turn\n")
    print(f"{'columns':>8s} {'kernel':12s} {'bare':>7s} {'rank 0':>7s} {'EigenPro':>9s}", end=" ")
    print(f"{'ratio':>6s} {'rank':>5s} {'batch':>6s} {'spectrum':>9s} {'others':>7s}")
    for n_columns in (784, 54):
        X = rng.normal(size=(n_rows, n_columns)).astype(np.float32)
        target = rng.normal(size=(n_rows, 10))
        for name, kernel in (
            ("gaussian", Gaussian(np.sqrt(n_columns))),
            ("exponential", Exponential(np.sqrt(n_columns))),
        ):
            problem = whole_space(kernel, X, target)
            plain, solver = EigenPro(rank=0), EigenPro()
            begin = time.perf_counter()
            state = solver.init(problem)
            init = time.perf_counter() - begin
            plain_state = plain.init(problem)
            runs = [
                lambda p=problem, a=target: p.evaluate(a),
                lambda p=problem, f=plain, a=plain_state: f.step(p, a),
                lambda p=problem, f=solver, a=state: f.step(p, a),
            ]
            with neighbours() as found:
                bare, rank_0, ours = _best_in_turn(runs, options.repeats)
            print(
                f"{n_columns:8d} {name:12s} {bare:6.2f}s {rank_0:6.2f}s {ours:8.2f}s "
                f"{ours / bare:6.2f} {state.details['rank']:5d} "
                f"{state.details['batch_size']:6d} {init:8.2f}s {found.share:7.0%}",
                flush=True,
            )


def features(options):
    """Training loss and test error after 10 epochs on the same random Fourier features."""
    print("Squared error, alpha 1e-9; for each solver: loss, error (of numbers: of the variance)\n")
    print(f"{'':>20s} {'rows':>8s} {'features':>9s} {'SGD':>17s} {'rank 0':>17s} {'EigenPro':>17s}")
    for name, n_rows, n_features in FEATURE_CASES:
        if name not in options.tables:
            continue
        if options.quick:
            n_rows, n_features = QUICK_ROWS, 200
        try:
            X, y, X_test, y_test, scale = _table(name, n_rows)
        except ValueError:
            print(f"{name}: not in the folder")
            continue
        row = f"{name:>20s} {len(X):8,d} {n_features:9,d}"
        classes = y.dtype.kind in "iu"
        kind = KernelClassifier if classes else KernelRegressor
        for solver in (SGD(tol=0.0), EigenPro(rank=0, tol=0.0), EigenPro(tol=0.0)):
            model = kind(
                Gaussian(scale),
                "squared_error",
                features=RandomFourier(n_features, random_state=0),
                solver=solver,
                alpha=1e-9,
                max_epochs=10,
                random_state=0,
            ).fit(X, y)
            target = LOSS.encode(y, len(model.classes_)) if classes else y[:, None]
            f = model.expansion_.evaluate(RowSource(X))
            loss = LOSS.value(f, target, np.full(len(X), 1 / len(X)))
            error = 1.0 - model.score(X_test, y_test)
            row += f" {loss:9.4f} {error:7.2%}"
        print(row, flush=True)


def _table(name, n_rows):
    if name in PAPER:
        X, y, X_test, y_test, median = images(name)
        scale = median / 2
    else:
        X, y, *_ = load(name)
        X = np.asarray(X, np.float32)
        X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-6)
        order = np.random.default_rng(0).permutation(len(X))[:120_000]
        X, y = X[order], y[order]
        if name == "covtype":
            y = (y == 2).astype(int)
        elif y.dtype.kind == "f":
            y = ((y - y.mean()) / y.std()).astype(np.float64)
        cut = len(X) // 6
        X, y, X_test, y_test = X[cut:], y[cut:], X[:cut], y[:cut]
        scale = 0.3 * np.sqrt(X.shape[1])
    return X[:n_rows], y[:n_rows], X_test, y_test, scale


def steps(options):
    """Epochs to 1.01 times the least objective, alpha 1e-5, by step (200: not reached)."""
    n_rows = 600 if options.quick else 2000
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 5))
    y = np.sin(2 * X[:, :1]) + X[:, 1:2] * X[:, 2:3]
    factors = 2.0 ** np.arange(-3.0, 5.0)
    print(
        "factor on the rule's step ".ljust(52) + "".join(f"{f:7.3g}" for f in factors) + "  ratio"
    )
    cases = {
        "gaussian": Gaussian(2.0),
        "exponential": Exponential(3.0),
        "cauchy": 4.0 * RationalQuadratic(2.0),
    }
    for kernel in (cases[kind] for kind in options.kernels):
        for batch_size in (16, 128, 1024):
            problem = whole_space(kernel, X, y, alpha=1e-5, keep=KEEP)
            model = KernelRegressor(kernel, features=None, solver="exact", alpha=1e-5)
            least = problem.objective(model.fit(X, y).expansion_.coef)
            row = f"{kernel!s:40.40s} batch {batch_size:5d}"
            counts = []
            for factor in factors:
                solver = EigenPro(tol=0.0, batch_size=batch_size)
                state = solver.init(problem)
                state.rate *= factor
                epoch = 0
                while epoch < 200 and not problem.objective(state.coef) <= 1.01 * least:
                    state = solver.step(problem, state)
                    epoch += 1
                counts.append(epoch)
            ours = counts[list(factors).index(1.0)]
            row += "".join(f"{count:7d}" for count in counts)
            print(f"{row} {ours / min(counts):7.2f}", flush=True)


SECTIONS = {f.__name__: f for f in (exact, epochs, whole, mnist, overhead, features, steps)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="few rows of each table")
    parser.add_argument("--sets", nargs="+", default=list(PAPER), help="of epochs")
    parser.add_argument("--kernels", nargs="+", default=list(KERNELS), choices=KERNELS)
    parser.add_argument("--rows", type=int, default=10_000, help="of epochs")
    parser.add_argument("--longest", type=int, default=200, help="epochs of Pegasos")
    parser.add_argument("--methods", nargs="+", default=["eigenpro", "falkon", "svc"])
    parser.add_argument("--repeats", type=int, default=5, help="of overhead")
    parser.add_argument("--whole-epochs", type=int, default=8, help="of each solver of whole")
    parser.add_argument("--epochs", type=int, default=5, help="of EigenPro on all of MNIST")
    parser.add_argument("--centers", nargs="+", type=int, default=[5000, 10_000])
    tables = sorted({name for name, *_ in FEATURE_CASES})
    parser.add_argument("--tables", nargs="+", default=tables, help="of features")
    options = parser.parse_args()
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    if options.quick:
        options.centers = [100]
    warnings.simplefilter("ignore")
    print(describe())
    for name in options.sections or SECTIONS:
        print(f"\n== {name}: {SECTIONS[name].__doc__}\n", flush=True)
        SECTIONS[name](options)


if __name__ == "__main__":
    main()
