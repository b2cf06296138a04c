"""Exact against scikit-learn's solvers of the same problems."""

import numpy as np
import pytest
from helpers import KERNEL, exact_objective, make_problem, table
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, SVR

from rkhs import KernelClassifier, KernelRegressor
from rkhs.kernels import Gaussian
from rkhs.losses import EpsilonInsensitive, Hinge, LogLoss, Pinball, Softmax
from rkhs.solvers import Exact


@pytest.mark.parametrize("a", [1e-3, 1.0])
def test_kernel_ridge_is_reproduced(a):
    X, y, _ = table()
    Y = np.stack([y, y**2], axis=1)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    theirs = KernelRidge(alpha=a, kernel="rbf", gamma=1 / (2 * 1.5**2)).fit(X, Y, weight)
    ours = KernelRegressor(kernel=KERNEL, solver="exact", alpha=a / weight.sum())
    ours.fit(X, Y, weight)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ours.expansion_.coef, theirs.dual_coef_, rtol=1e-6, atol=1e-8)


def test_default_alpha_is_kernel_ridge_with_penalty_one():
    X, y, _ = table()
    theirs = KernelRidge(alpha=1.0, kernel="rbf", gamma=1 / (2 * 1.5**2)).fit(X, y)
    ours = KernelRegressor(kernel=KERNEL, solver="exact").fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-8)


def mirrored(gram, target):
    """The problem in which LIBSVM's offset is zero by symmetry: each row also negated."""
    return np.block([[gram, -gram], [-gram, gram]]), np.concatenate([target, -target])


def test_hinge_reaches_libsvm():
    problem = make_problem(Hinge(), "kernel", alpha=1e-3, dtype=np.float64)
    least, coef = exact_objective(problem)
    X, _, _ = table()
    gram, n = KERNEL(X), len(X)
    for output in range(3):
        kernel, labels = mirrored(gram, problem.target[:, output])
        weight = np.tile(problem.weight, 2)
        # Mean over 2n rows of weight sum 2: halves both sides, so C stays weight / alpha / 2.
        svc = SVC(C=1.0, kernel="precomputed", tol=1e-8)
        used = weight > 0
        svc.fit(kernel[np.ix_(used, used)], labels[used], weight[used] / problem.alpha / 2)
        dual = np.zeros(2 * n)
        dual[np.flatnonzero(used)[svc.support_]] = svc.dual_coef_[0]
        theirs = gram @ (dual[:n] - dual[n:])
        assert abs(svc.intercept_[0]) < 1e-5
        np.testing.assert_allclose((gram @ coef)[:, output], theirs, atol=2e-5)
    assert least > 0


def test_hinge_classifier_agrees_with_svc_where_the_offset_does_not_matter():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    X = np.vstack([X, X + 20.0])  # two copies far apart, labels swapped: no offset helps
    y = np.r_[X[:200, 0] > 0, X[:200, 0] <= 0]
    theirs = SVC(C=1.0, gamma=0.5, tol=1e-6).fit(X, y)
    ours = KernelClassifier(kernel=Gaussian(1.0), loss="hinge", solver="exact").fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_tube_regression_reaches_libsvm(epsilon):
    X, y, _ = table()
    gram, n, alpha = KERNEL(X), len(X), 1e-3
    kernel, target = mirrored(gram, y)
    svr = SVR(C=1.0 / (2 * n * alpha), kernel="precomputed", epsilon=epsilon, tol=1e-9)
    svr.fit(kernel, target)
    dual = np.zeros(2 * n)
    dual[svr.support_] = svr.dual_coef_[0]
    ours = KernelRegressor(
        kernel=KERNEL, loss=EpsilonInsensitive(epsilon), solver="exact", alpha=alpha
    ).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), gram @ (dual[:n] - dual[n:]), atol=1e-4)


@pytest.mark.parametrize(("loss", "n_classes"), [(LogLoss(), 2), (Softmax(), 3)])
def test_logistic_agrees_with_scikit_learn_on_the_same_features(loss, n_classes):
    X, _, codes = table()
    codes = np.minimum(codes, n_classes - 1)
    values, vectors = np.linalg.eigh(KERNEL(X))
    Z = vectors * np.sqrt(np.maximum(values, 0.0))
    alpha = 1e-2
    theirs = LogisticRegression(
        C=1.0 / (alpha * len(X)), fit_intercept=False, tol=1e-10, max_iter=10_000
    ).fit(Z, codes)
    ours = KernelClassifier(kernel=KERNEL, loss=loss, solver="exact", alpha=alpha).fit(X, codes)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(Z), atol=1e-5)


def test_pinball_leaves_the_right_share_below():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(400, 1))
    y = rng.normal(size=400)
    model = KernelRegressor(kernel=KERNEL, loss=Pinball(0.8), solver="exact", alpha=1e-6)
    below = np.mean(y < model.fit(X, y).predict(X))
    assert below == pytest.approx(0.8, abs=0.03)


def test_interpolation_without_penalty_and_with_repeated_rows():
    X = np.array([[0.0], [0.0], [1.0]])
    y = np.array([1.0, 1.0, 2.0])
    model = KernelRegressor(kernel=KERNEL, solver="exact", alpha=0).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-8)


def test_support_vectors_only_are_kept():
    X, _, codes = table()
    model = KernelClassifier(kernel=KERNEL, loss="hinge", solver=Exact()).fit(X, codes > 0)
    assert len(model.expansion_.coef) < len(X)
