"""On random binning, the solvers reach scikit-learn's solutions on the same sparse features."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from rkhs import KernelClassifier, KernelRegressor
from rkhs.features import RandomBinning
from rkhs.solvers import ConjugateGradient, NewtonCG

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 3))
y = np.sin(2 * X[:, 0]) + X[:, 1]
ALPHA = 1e-3
RIDGE = Ridge(alpha=ALPHA * len(X), fit_intercept=False, solver="sparse_cg", tol=1e-12)
LOGISTIC = LogisticRegression(
    C=1.0 / (ALPHA * len(X)), fit_intercept=False, solver="newton-cg", tol=1e-10, max_iter=500
)


@pytest.mark.parametrize(
    ("kind", "solver", "target", "exact"),
    [
        (KernelRegressor, ConjugateGradient(tol=1e-7), y, RIDGE),
        (KernelClassifier, NewtonCG(tol=1e-10), (y > 0).astype(int), LOGISTIC),
    ],
    ids=["conjugate gradients to the ridge", "Newton to the logistic"],
)
def test_solvers_reach_the_exact_solution(kind, solver, target, exact):
    model = kind(
        kernel="laplacian",
        length_scale=1.5,
        features=RandomBinning(32),
        solver=solver,
        alpha=ALPHA,
        dtype="float64",
        random_state=0,
    ).fit(X, target)
    Z = model.features_.transform(X)
    coef = exact.fit(Z, target).coef_.ravel()
    error = np.linalg.norm(model.expansion_.coef[:, 0] - coef) / np.linalg.norm(coef)
    assert error < 1e-4
