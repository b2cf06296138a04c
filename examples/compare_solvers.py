"""Five ways to fit one table: score on new rows, seconds and epochs of each.

Run with: python examples/compare_solvers.py
"""

import time

from sklearn.datasets import make_friedman1

from rkhs import KernelRegressor
from rkhs.features import Nystrom, RandomFourier

METHODS = {
    "exact": (None, "exact"),
    "whole space, conjugate gradients": (None, "conjugate_gradient"),
    "Nyström, conjugate gradients": (Nystrom(400), "conjugate_gradient"),
    "Fourier, conjugate gradients": (RandomFourier(800), "conjugate_gradient"),
    "Fourier, stochastic gradients": (RandomFourier(800), "sgd"),
}


def main():
    X, y = make_friedman1(n_samples=3000, noise=1.0, random_state=0)
    train, test = slice(0, 1500), slice(1500, None)
    print(f"{'method':34}{'R²':>7}{'seconds':>10}{'epochs':>8}")
    for name, (features, solver) in METHODS.items():
        begin = time.perf_counter()
        model = KernelRegressor(features=features, solver=solver, random_state=0)
        model.fit(X[train], y[train])
        seconds = time.perf_counter() - begin
        score = model.score(X[test], y[test])
        print(f"{name:34}{score:7.3f}{seconds:10.2f}{model.n_iter_:8}")


if __name__ == "__main__":
    main()
