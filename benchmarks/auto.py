"""Raw tables with nothing set, next to boosted trees and other kernel machines.

Every table of the folder that RKHS_DATA names, official split or the last fifth of
``default_rng(0).permutation``. One process a fit, after compiled code was warmed on a few rows;
"others" is the share of the CPU that other processes took meanwhile.

    RKHS_DATA=folder python benchmarks/auto.py                           # everything: hours
    RKHS_DATA=folder python benchmarks/auto.py magic adult               # some tables
    RKHS_DATA=folder python benchmarks/auto.py --methods rkhs lightgbm-500
    RKHS_DATA=folder python benchmarks/auto.py --keep results.jsonl      # go on where it ended
    RKHS_DATA=folder python benchmarks/auto.py --noise 50 magic          # columns of noise added
    RKHS_DATA=folder python benchmarks/auto.py --seeds 4 uci_bike        # means over random states
    RKHS_DATA=folder python benchmarks/auto.py --rows 10000              # at most so many rows
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from _machine import describe, neighbours

METHODS = ["rkhs", "lightgbm-500", "lightgbm", "hist-gradient-boosting", "svm", "xrfm"]
SVM_ROWS = 60_000  # beyond which LIBSVM is left out
XRFM_ROWS = 100_000
WARM_ROWS = 1500
LONGEST = 3600  # seconds, after which a method is given up on a table


def table(name, rows=None, noise=0):
    """Training and test rows of a table, and the columns that hold codes."""
    with np.load(Path(os.environ["RKHS_DATA"]) / f"{name}.npz") as file:
        X, y = file["X"], file["y"]
        test = (file["X_test"], file["y_test"]) if "X_test" in file else None
    X = X.reshape(len(X), -1)
    if test is None:
        train, held_out = np.split(
            np.random.default_rng(0).permutation(len(X)), [int(0.8 * len(X))]
        )
        X, y, X_test, y_test = X[train], y[train], X[held_out], y[held_out]
    else:
        X_test, y_test = test[0].reshape(len(test[0]), -1), test[1]
    if rows is not None and len(X) > rows:
        few = np.random.default_rng(1).permutation(len(X))[:rows]
        X, y = X[few], y[few]
    if noise:
        rng = np.random.default_rng(2)
        X, X_test = (np.hstack([Z, rng.normal(size=(len(Z), noise))]) for Z in (X, X_test))
    return X.astype(np.float32), y, X_test.astype(np.float32), y_test


def make(method, y, seed=0):
    """An estimator with its defaults."""
    numbers = y.dtype.kind == "f"
    if method == "rkhs":
        from rkhs import KernelClassifier, KernelRegressor

        return (KernelRegressor if numbers else KernelClassifier)(random_state=seed)
    if method.startswith("lightgbm"):
        from lightgbm import LGBMClassifier, LGBMRegressor

        more = {"n_estimators": 500, "learning_rate": 0.05} if method.endswith("500") else {}
        return (LGBMRegressor if numbers else LGBMClassifier)(random_state=seed, verbose=-1, **more)
    if method == "hist-gradient-boosting":
        from sklearn import ensemble

        kind = "Regressor" if numbers else "Classifier"
        return getattr(ensemble, f"HistGradientBoosting{kind}")(random_state=seed)
    if method == "svm":
        from sklearn.compose import TransformedTargetRegressor
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.svm import SVC, SVR

        if numbers:
            machine = make_pipeline(StandardScaler(), SVR())
            return TransformedTargetRegressor(machine, transformer=StandardScaler())
        return make_pipeline(StandardScaler(), SVC())
    return XRFM(numbers)


class XRFM:
    """xRFM on standardised columns, a fifth of the rows to choose by, as it asks for."""

    def __init__(self, numbers):
        self.numbers = numbers

    def fit(self, X, y):
        from sklearn.preprocessing import StandardScaler
        from xrfm import xRFM

        self.scaler = StandardScaler().fit(X)
        Z = self.scaler.transform(X).astype(np.float32)
        self.labels = None
        if not self.numbers:
            self.labels, y = np.unique(y, return_inverse=True)
        cut = int(0.8 * len(Z))
        target = y[:, None].astype(np.float32) if self.numbers else y
        self.model = xRFM(tuning_metric="mse" if self.numbers else "accuracy")
        self.model.fit(Z[:cut], target[:cut], Z[cut:], target[cut:])
        return self

    def predict(self, X):
        out = np.asarray(self.model.predict(self.scaler.transform(X).astype(np.float32)))
        return out.reshape(-1) if self.numbers else self.labels[out.reshape(-1).astype(int)]


def calibration_error(probability, correct):
    """Mean difference of confidence and accuracy over ten bins of confidence."""
    bins = np.minimum((10 * probability).astype(int), 9)
    gaps = np.bincount(bins, probability - correct, minlength=10)
    return float(np.abs(gaps).sum() / len(correct))


def measure(name, method, rows, noise, seeds):
    """Means over random states of `measure_one`, after compiled code was warmed."""
    X, y, X_test, y_test = table(name, rows, noise)
    if (method == "svm" and len(X) > SVM_ROWS) or (method == "xrfm" and len(X) > XRFM_ROWS):
        return {"left_out": f"more than {SVM_ROWS if method == 'svm' else XRFM_ROWS:,} rows"}
    few = np.random.default_rng(3).permutation(len(X))[:WARM_ROWS]
    warm = make(method, y).fit(X[few], y[few])
    warm.predict(X_test[:100])
    models = [make(method, y, seed) for seed in range(max(1, seeds))]
    found = [measure_one(model, X, y, X_test, y_test) for model in models]
    return {key: float(np.mean([row[key] for row in found])) for key in found[0]}


def measure_one(model, X, y, X_test, y_test):
    """Error (a share of the deviation, or of the rows), seconds, and losses of probabilities."""
    with neighbours() as others:
        begin = time.perf_counter()
        model.fit(X, y)
        row = {"fit": time.perf_counter() - begin}
    begin = time.perf_counter()
    predicted = model.predict(X_test)
    row |= {"predict": time.perf_counter() - begin, "others": others.share, "rows": len(X)}
    if y.dtype.kind == "f":
        error = float(np.sqrt(np.mean((predicted - y_test.astype(float)) ** 2)))
        return row | {"error": error / float(y_test.std()), "rmse": error}
    row["error"] = float(np.mean(predicted != y_test))
    if hasattr(model, "predict_proba"):
        P = model.predict_proba(X_test)
        known = np.isin(y_test, model.classes_)
        place = np.searchsorted(model.classes_, y_test[known])
        chosen = np.clip(P[known][np.arange(known.sum()), place], 1e-15, 1.0)
        row["log_loss"] = float(-np.log(chosen).mean())
        best = P.argmax(axis=1)
        row["calibration"] = calibration_error(P.max(axis=1), model.classes_[best] == y_test)
    return row


def apart(name, method, options):
    """`measure` in a process of its own."""
    shared = {"rows": options.rows, "noise": options.noise, "seeds": options.seeds}
    job = json.dumps({"name": name, "method": method, **shared})
    command = [sys.executable, "-W", "ignore", __file__, "--job", job]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.longest)
    except subprocess.TimeoutExpired:
        return {"left_out": f"not done after {options.longest} s"}
    if done.returncode < 0:  # memory, most likely
        return {"left_out": f"ended by signal {-done.returncode}"}
    if done.returncode:
        return {"left_out": done.stderr.strip().splitlines()[-1][:100]}
    return json.loads(done.stdout.splitlines()[-1])


def show(name, method, row):
    print(f"{name:20s} {method:22s} ", end="")
    if "left_out" in row:
        print(row["left_out"], flush=True)
        return
    print(f"{row['error']:8.4f} {row['fit']:8.2f} {row['predict']:8.2f} ", end="")
    losses = [f"{row[key]:8.4f}" if key in row else " " * 8 for key in ("log_loss", "calibration")]
    print(*losses, f"{row['rmse']:10.2f}" if "rmse" in row else " " * 10, end=" ")
    print(f"{100 * row['others']:5.1f} %", flush=True)


def verdict(results, methods):
    """Mean ranks, and ours against LightGBM with 500 trees."""
    names = list(dict.fromkeys(name for name, _ in results))
    done = {key: row for key, row in results.items() if "error" in row}
    ranks = {method: [] for method in methods}
    for name in names:
        here = {m: done[name, m]["error"] for m in methods if (name, m) in done}
        for method, error in here.items():
            ranks[method].append(1 + sum(other < error for other in here.values()))
    print()
    for method in methods:
        if ranks[method]:
            print(f"{method:22s} mean rank {np.mean(ranks[method]):.2f} on {len(ranks[method])}")
    pairs = [
        (name, done[name, "rkhs"], done[name, "lightgbm-500"])
        for name in names
        if (name, "rkhs") in done and (name, "lightgbm-500") in done
    ]
    if not pairs:
        return
    ratios = {name: ours["error"] / theirs["error"] for name, ours, theirs in pairs}
    worst = max(ratios, key=ratios.get)
    lower = sum(ratio < 1 for ratio in ratios.values())
    print(
        f"\nagainst lightgbm-500: lower error on {lower} of {len(pairs)} tables; worst {worst}, ",
        end="",
    )
    print(f"{ratios[worst]:.3f} times its error")
    for key in ("fit", "predict"):
        ratio = np.exp(np.mean([np.log(a[key] / b[key]) for _, a, b in pairs]))
        print(f"{key} seconds: {ratio:.2f} times its own in the geometric mean")
    for key in ("log_loss", "calibration"):
        both = [(a[key], b[key]) for _, a, b in pairs if key in a and key in b]
        if both:
            print(f"{key} at most its own on {sum(a <= b for a, b in both)} of {len(both)} tables")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*")
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--noise", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--longest", type=int, default=LONGEST, help="seconds of a method")
    parser.add_argument("--keep", type=Path, help="a file of results to go on from")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        print(json.dumps(measure(**json.loads(options.job))))
        return
    folder = Path(os.environ["RKHS_DATA"])
    names = options.tables or sorted(path.stem for path in folder.glob("*.npz"))
    kept = {}
    if options.keep and options.keep.exists():
        for line in options.keep.read_text().splitlines():
            key, row = json.loads(line)
            kept[tuple(key)] = row
    print(describe())
    print(f"{'table':20s} {'method':22s} {'error':>8s} {'fit s':>8s} {'pred. s':>8s} ", end="")
    print(f"{'log loss':>8s} {'calibr.':>8s} {'RMSE':>10s} {'others':>7s}")
    results = {}
    for name in names:
        for method in options.methods:
            key = (name, method, options.rows, options.noise, options.seeds)
            row = kept.get(key) or apart(name, method, options)
            if options.keep and key not in kept:
                with options.keep.open("a") as file:
                    file.write(json.dumps([key, row]) + "\n")
            results[name, method] = row
            show(name, method, row)
    verdict(results, options.methods)


if __name__ == "__main__":
    main()
