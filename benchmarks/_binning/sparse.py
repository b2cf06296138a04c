"""Sparse models: figure 6 of the paper, paths, and the optimum."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from _machine import neighbours, thread_gain

from _binning.common import (
    QUICK_ROWS,
    apart,
    binning,
    estimator,
    features_of,
    measure,
    median_distance,
    share,
    table,
    warm_binning,
)

RIDGE = 0.1  # alpha times the number of rows
EPOCHS = 100
L1_SETS = ["ijcnn1", "cod_rna_train", "covtype", "susy_30k"]  # the paper's, SUSY of 24,000 rows
L1_SIZES = {"random binning": 256, "random Fourier": 1024}
L1_ALPHA = 1e-4
L1_PATH = [1e-3, 3e-4, 1e-4, 3e-5, 1e-5]
L1_SECONDS = 10.0  # after which a run to the fixed objective ends
L1_TURNS, L1_TURN_SECONDS = 8, 20.0  # after which no further turn begins
NEVER = np.inf, 0  # seconds and epochs
L1_GAP = 0.01  # of the lowest objective seen, that the fixed one lies above it
OPTIMUM_ROWS, OPTIMUM_GRIDS, OPTIMUM_ALPHA = 5000, 16, 1e-3
HARD_ROWS, HARD_GRIDS, HARD_ALPHA, HARD_SCALE = [5000, 80_000], 256, 1e-5, 5.0


def l1_model(y, method, size, length_scale, alpha, loss="log_loss", scheme="grid", **settings):
    from rkhs.kernels import Laplacian
    from rkhs.solvers import CoordinateDescent

    solver = CoordinateDescent(tol=settings.pop("tol", 1e-3), scheme=scheme)
    settings = {"penalty": "l1", "loss": loss} | settings
    kernel = Laplacian(length_scale)
    return estimator(y, kernel, features_of(method, size), alpha, solver, **settings)


def l1_speed_job(name, method, scheme, quick):
    """Seconds and objective after each epoch: one thread, two, and two fits at once, by turns."""
    X, y, _, _ = table(name, quick)
    length_scale = median_distance(X) / 4
    size, budget = (16, 0.5) if quick else (L1_SIZES[method], L1_SECONDS)
    settings = {"scheme": scheme, "time_budget": budget}

    def fit(n_jobs, size=size, **more):
        more |= settings | {"n_jobs": n_jobs}
        model = l1_model(y, method, size, length_scale, L1_ALPHA, **more).fit(X, y)
        return [(row["seconds"], row["objective"]) for row in model.history_]

    for n_jobs in (1, 2):
        fit(n_jobs, 4, max_epochs=2)
    # As many epochs as it takes, so that there is time for several turns.
    first = fit(1)
    _, epochs = first_below(first, (1 + 0.1 * L1_GAP) * min((o for _, o in first), default=np.nan))
    if epochs:
        settings["max_epochs"] = epochs
    one, two, both, sines, begin = [first], [], [], [], time.perf_counter()
    with neighbours() as others, ThreadPoolExecutor(2) as pool:
        while len(sines) < L1_TURNS and time.perf_counter() - begin < L1_TURN_SECONDS:
            sines.append(thread_gain())
            one.append(fit(1))
            two.append(fit(2))
            both.append(list(pool.map(fit, (1, 1))))
    histories = {"one": one, "two": two, "both": both}
    yield {"histories": histories, "sines": max(sines), "others": others.share}


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
    print("Fits with one thread, with two, and two fits of one thread each at once, by turns, the")
    print("best counts. Times: how many times as fast two threads are. Limit: the same for the two")
    print("fits at once, the later of them, which share nothing but the machine and Python's lock.")
    print("Sines: the same for sines.")
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
    print(f" {'times':>6s} {'limit':>6s} {'sines':>6s} {'fits':>6s} {'epochs':>6s} {'others':>8s}")
    for method in L1_SIZES:
        runs = {
            scheme: row
            for scheme in ("grid", "random")
            for row in apart(
                l1_speed_job, name=name, method=method, scheme=scheme, quick=options.quick
            )
        }
        every = [
            h for row in runs.values() for key in ("one", "two") for h in row["histories"][key]
        ]
        target = (1 + L1_GAP) * min((o for h in every for _, o in h), default=np.nan)
        for scheme, row in runs.items():
            found = row["histories"]
            reached = [min(first_below(h, target) for h in found[key]) for key in ("one", "two")]
            later = [max(first_below(h, target) for h in pair) for pair in found["both"]]
            reached.append(min(later))
            (one, epochs), (two, _), (both, _) = reached
            print(f"{method:16s} {scheme:8s} {target:9.5f}", end=" ")
            if NEVER in reached:
                print("not reached", flush=True)
                continue
            print(
                f"{one:10.3f} {two:8.3f} {one / two:6.2f} {2 * one / both:6.2f} "
                f"{row['sines']:6.2f} {len(found['one']):6d} {epochs:6d} "
                f"{share(row['others']):>8s}",
                flush=True,
            )


def first_below(history, target):
    """Seconds and number of the first epoch with such an objective."""
    for epoch, (seconds, objective) in enumerate(history, 1):
        if objective <= target:
            return seconds, epoch
    return NEVER
