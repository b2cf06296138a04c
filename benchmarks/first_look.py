"""Nyström + conjugate gradients against scikit-learn's Nystroem + linear model.

Same centres, same kernel, same data, each in a process of its own so that peak memory means
something. Data from the folder that RKHS_DATA names.

    RKHS_DATA=folder python benchmarks/first_look.py            # everything
    RKHS_DATA=folder python benchmarks/first_look.py covtype    # one set
"""

import json
import subprocess
import sys
import time

import numpy as np
from _machine import describe, neighbours, peak_bytes

SETS = {
    "california_housing": {"centers": [1000], "alpha": 1e-6},
    "covtype": {"centers": [1000, 2000], "alpha": 1e-7},
    "mnist": {"centers": [2000, 10_000], "alpha": 1e-6},
}
# What is compared with scikit-learn; the larger numbers of centres are ours alone.
PEER_CENTERS = {"mnist": [2000], "covtype": [1000], "california_housing": [1000]}
# Errors are means over these seeds of the centres, and seconds the least: one seed says little
# about a tenth of a percent. What takes minutes, or has no centres, has the first alone.
SEEDS = range(5)
NEWTON_TOL = 0.03  # from which errors on test rows do not change; the peer ends by max_iter
SLOW = {"rkhs, Nystrom + NewtonCG", "scikit-learn Nystroem + Logistic", "scikit-learn-intelex SVC"}


def table(name):
    """Training and test rows, scaled as all methods get them."""
    from sklearn.preprocessing import StandardScaler

    from rkhs.datasets import load

    data = load(name)
    X, y, X_test, y_test = data.X, data.y, data.X_test, data.y_test
    if name == "covtype":
        y = (y == 2).astype(np.int8)
    if X_test is None:
        order = np.random.default_rng(0).permutation(len(X))
        cut = int(0.8 * len(X))
        X, X_test = X[order[:cut]], X[order[cut:]]
        y, y_test = y[order[:cut]], y[order[cut:]]
    X, X_test = X.astype(np.float32), X_test.astype(np.float32)
    if name == "mnist":
        return X / 255, y, X_test / 255, y_test
    scaler = StandardScaler().fit(X)
    return scaler.transform(X), y, scaler.transform(X_test), y_test


def length_scale(name, X):
    """One length scale for all methods: the usual one for MNIST, else the median distance."""
    from rkhs.kernels import Gaussian

    return 5.0 if name == "mnist" else Gaussian("median").resolve(X[:1000]).length_scale


def ours(name, n_centers, scale, seed, X, solver="conjugate_gradient"):
    from sklearn.utils import check_random_state

    from rkhs import KernelClassifier, KernelRegressor
    from rkhs.features import Nystrom

    kind = KernelRegressor if name == "california_housing" else KernelClassifier
    loss = "log_loss" if solver == "newton_cg" else "squared_error"
    # The rows that scikit-learn takes with this seed: luck is the same for both.
    centers = X[check_random_state(seed).permutation(len(X))[:n_centers]]
    return kind(
        length_scale=scale,
        loss=loss,
        features=Nystrom(n_centers, centers=centers),
        solver=solver,
        tol=NEWTON_TOL if solver == "newton_cg" else None,
        alpha=SETS[name]["alpha"],
        random_state=seed,
    )


def theirs(name, n_centers, scale, seed, X, model="ridge"):
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
    from sklearn.pipeline import make_pipeline

    penalty = SETS[name]["alpha"]
    if model == "logistic":
        linear = LogisticRegression(C=1e3, max_iter=100)
    elif name == "california_housing":
        linear = Ridge(alpha=penalty * 16_512)
    else:
        linear = RidgeClassifier(alpha=penalty * (464_809 if name == "covtype" else 60_000))
    return make_pipeline(
        Nystroem(gamma=0.5 / scale**2, n_components=n_centers, random_state=seed), linear
    )


def svc(name, n_centers, scale, seed, X):
    """The strongest kernel peer on a CPU: scikit-learn-intelex, if it is installed."""
    from sklearnex.svm import SVC

    return SVC(C=5.0, gamma=0.5 / scale**2)


METHODS = {
    "rkhs, Nystrom + CG": ours,
    "rkhs, Nystrom + NewtonCG": lambda *a: ours(*a, solver="newton_cg"),
    "scikit-learn Nystroem + Ridge": theirs,
    "scikit-learn Nystroem + Logistic": lambda *a: theirs(*a, model="logistic"),
    "scikit-learn-intelex SVC": svc,
}


def error_of(name, predicted, y):
    if name == "california_housing":
        return float(np.sqrt(np.mean((predicted - y) ** 2)))
    return 100 * float(np.mean(predicted != y))


def one_run(name, n_centers, method):
    """Fit and predict in this process; prints a JSON line."""
    X, y, X_test, y_test = table(name)
    scale = length_scale(name, X)
    if method.startswith("rkhs"):  # compiled loops are cached on disk; load them before timing
        METHODS[method](name, 50, scale, 0, X).fit(X[:2500], y[:2500])
    try:
        METHODS[method](name, n_centers, scale, 0, X)
    except ImportError:
        print(json.dumps(None))
        return
    before = peak_bytes()
    fit_seconds, errors = [], []
    seeds = SEEDS[:1] if method in SLOW or n_centers not in PEER_CENTERS[name] else SEEDS
    with neighbours() as others:
        for seed in seeds:
            model = METHODS[method](name, n_centers, scale, seed, X)
            begin = time.perf_counter()
            model.fit(X, y)
            fit_seconds.append(time.perf_counter() - begin)
            peak = peak_bytes()
            begin = time.perf_counter()
            predicted = model.predict(X_test)
            predict_seconds = time.perf_counter() - begin
            errors.append(error_of(name, predicted, y_test))
    history = getattr(model, "history_", None)
    row = {
        "error": float(np.mean(errors)),
        "spread": float(np.std(errors, ddof=1)) if len(errors) > 1 else None,
        "fit": min(fit_seconds),
        "predict": predict_seconds,
        "extra": peak - before,
        "peak": peak,
        "others": others.share,
        "epochs": len(history) if history else None,
        "first_epoch": history[0]["seconds"] if history else None,
        "last_epoch": history[-1]["seconds"] if history else None,
    }
    print(json.dumps(row))


def run_apart(name, n_centers, method):
    command = [sys.executable, "-W", "ignore", __file__, "--one", name, str(n_centers), method]
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode:
        return {"failed": out.stderr.strip().splitlines()[-1][:80] if out.stderr else "killed"}
    return json.loads(out.stdout.splitlines()[-1])


def main(names):
    print(describe())
    for name in names:
        unit = "RMSE" if name == "california_housing" else "error %"
        print(f"\n{name}")
        print(f"{'method':34s} {'centres':>7s} {unit:>9s} {'spread':>7s} {'fit s':>7s}", end="")
        print(f" {'predict s':>9s}", end="")
        print(f" {'fit GB':>7s} {'peak GB':>7s} {'epochs':>6s} {'others %':>8s}")
        for method in METHODS:
            if name == "california_housing" and not method.endswith(("+ CG", "Ridge")):
                continue
            if method.endswith("SVC") and name != "mnist":
                continue
            centers = SETS[name]["centers"] if method.endswith("+ CG") else PEER_CENTERS[name]
            for n_centers in centers:
                row = run_apart(name, n_centers, method)
                if row is None:
                    print(f"{method:34s} not installed")
                    continue
                if "failed" in row:
                    print(f"{method:34s} {n_centers:7d} failed: {row['failed']}")
                    continue
                shown = "" if method.endswith("SVC") else n_centers
                spread = "" if row["spread"] is None else f"{row['spread']:.2f}"
                print(
                    f"{method:34s} {shown!s:>7s} {row['error']:9.2f} {spread:>7s} "
                    f"{row['fit']:7.2f} {row['predict']:9.2f} {row['extra'] / 1e9:7.2f} "
                    f"{row['peak'] / 1e9:7.2f} "
                    f"{row['epochs'] or '':>6} {100 * row['others']:8.1f}"
                )
                if row["first_epoch"]:
                    before = row["first_epoch"]
                    print(
                        f"{'':34s} of which {before:.1f} s to the end of the first epoch, "
                        f"{row['last_epoch'] - before:.1f} s for the others"
                    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one_run(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        main(sys.argv[1:] or list(SETS))
