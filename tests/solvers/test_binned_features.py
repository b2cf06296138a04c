"""On random binning, the solvers reach scikit-learn's solutions on the same sparse features."""

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from rkhs import KernelClassifier, KernelRegressor
from rkhs.features import RandomBinning
from rkhs.solvers import ConjugateGradient, NewtonCG

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 3))
y = np.sin(2 * X[:, 0]) + X[:, 1]
ALPHA = 1e-3


def test_conjugate_gradients_reach_the_ridge_solution():
    model = KernelRegressor(
        kernel="laplacian",
        length_scale=1.5,
        features=RandomBinning(32),
        solver=ConjugateGradient(tol=1e-7),
        alpha=ALPHA,
        dtype="float64",
        random_state=0,
    ).fit(X, y)
    Z = model.features_.transform(X)
    exact = Ridge(alpha=ALPHA * len(X), fit_intercept=False, solver="sparse_cg", tol=1e-12)
    coef = exact.fit(Z, y).coef_
    error = np.linalg.norm(model.expansion_.coef[:, 0] - coef) / np.linalg.norm(coef)
    assert error < 1e-4


def test_newton_reaches_the_logistic_solution():
    labels = (y > 0).astype(int)
    model = KernelClassifier(
        kernel="laplacian",
        length_scale=1.5,
        features=RandomBinning(32),
        solver=NewtonCG(tol=1e-10),
        alpha=ALPHA,
        dtype="float64",
        random_state=0,
    ).fit(X, labels)
    Z = model.features_.transform(X)
    exact = LogisticRegression(
        C=1.0 / (ALPHA * len(X)), fit_intercept=False, solver="newton-cg", tol=1e-10, max_iter=500
    )
    coef = exact.fit(Z, labels).coef_[0]
    error = np.linalg.norm(model.expansion_.coef[:, 0] - coef) / np.linalg.norm(coef)
    assert error < 1e-4
