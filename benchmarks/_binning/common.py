"""Tables, and models that are measured alike."""

import json
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
from _machine import neighbours, peak_bytes

QUICK_ROWS = 2000
REGRESSION = {"california_housing"}


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
    if hasattr(features, "n_grids"):
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
    """Run a generator of rows in a process of its own (a quick one here); its rows as they come."""
    if arguments["quick"]:
        yield from job(**arguments)
        return
    script = str(Path(__file__).parents[1] / "binning.py")
    name = f"{job.__module__}:{job.__name__}"
    command = [sys.executable, "-W", "ignore", script, "--job", name]
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
