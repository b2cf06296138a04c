"""Features side by side, against the sum of their kernels."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils.estimator_checks import parametrize_with_checks

import rkhs
from rkhs import KernelClassifier, KernelRegressor
from rkhs.data import RowSource
from rkhs.expansion import SumExpansion
from rkhs.features import Concatenated, Nystrom, RandomBinning, RandomFourier
from rkhs.kernels import Laplacian
from rkhs.solvers import ConjugateGradient, CoordinateDescent, NewtonCG

rng = np.random.default_rng(3)
X = rng.normal(size=(400, 3))
Y = np.sin(2 * X[:, 0]) + np.sign(X[:, 1]) + 0.1 * rng.normal(size=400)
SMOOTH, DETAILS = Laplacian(4.0), 0.3 * Laplacian(0.7)
BOTH = Concatenated([Nystrom(60, kernel=SMOOTH), RandomBinning(32, kernel=DETAILS)], random_state=0)
DENSE = Concatenated([RandomFourier(30), Nystrom(20)], random_state=0)


@parametrize_with_checks([Concatenated(), Concatenated([Nystrom(), RandomFourier()])])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_features_are_those_of_the_parts_in_their_order():
    fitted = BOTH.fit(X)
    parts = [part.transform(X) for part in fitted.maps_]
    Z = fitted.transform(X)
    assert sparse.issparse(Z)
    np.testing.assert_array_equal(Z.toarray(), sparse.hstack(parts).toarray())
    assert Z.shape[1] == fitted.n_outputs == len(fitted.get_feature_names_out())
    dense = DENSE.fit(X)
    np.testing.assert_array_equal(
        dense.transform(X), np.hstack([part.transform(X) for part in dense.maps_])
    )


def test_the_kernel_is_the_sum_of_the_parts():
    np.testing.assert_allclose(
        BOTH.fit(X).kernel_(X[:5], X), SMOOTH(X[:5], X) + 0.3 * Laplacian(0.7)(X[:5], X)
    )


def test_maps_without_kernel_or_seed_get_the_common_ones():
    fitted = Concatenated([Nystrom(5), RandomBinning(4)], Laplacian(2.0), random_state=1).fit(X)
    assert [part.kernel_.length_scale for part in fitted.maps_] == [2.0, 2.0]
    assert fitted.maps_[0].seed_ != fitted.maps_[1].seed_
    again = Concatenated([Nystrom(5), RandomBinning(4)], Laplacian(2.0), random_state=1).fit(X)
    assert [part.seed_ for part in again.maps_] == [part.seed_ for part in fitted.maps_]


@pytest.mark.parametrize("features", [BOTH, DENSE], ids=["sparse", "dense"])
def test_products_are_those_of_the_whole_matrix(features):
    fitted = features.fit(X)
    operator = fitted.operator(RowSource(X), np.float64, keep_bytes=10**6)
    Z = fitted.transform(X)
    Z = Z.toarray() if sparse.issparse(Z) else Z
    W, V = rng.normal(size=(Z.shape[1], 2)), rng.normal(size=(len(X), 2))
    weight = rng.uniform(size=(len(X), 1))
    np.testing.assert_allclose(operator.matmat(W), Z @ W, atol=1e-9)
    np.testing.assert_allclose(operator.rmatmat(V), Z.T @ V, atol=1e-9)
    np.testing.assert_allclose(operator.gram(W, weight), Z.T @ (weight * (Z @ W)), atol=1e-9)
    np.testing.assert_allclose(
        operator.gram(W, lambda rows, f: weight[rows] * f), Z.T @ (weight * (Z @ W)), atol=1e-9
    )
    rows = operator.take(np.array([7, 3]))
    np.testing.assert_allclose(rows.toarray() if sparse.issparse(rows) else rows, Z[[7, 3]])


@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_regression_on_both_is_the_closed_form(weighted):
    weight = rng.integers(1, 4, len(X)).astype(float) if weighted else np.ones(len(X))
    alpha = 1e-3
    model = KernelRegressor(
        features=BOTH, solver=ConjugateGradient(tol=1e-7), alpha=alpha, dtype="float64"
    ).fit(X, Y, weight)
    Z = model.features_.transform(X).toarray()
    share = (weight / weight.sum())[:, None]
    coef = np.linalg.solve(Z.T @ (share * Z) + alpha * np.eye(Z.shape[1]), Z.T @ (share[:, 0] * Y))
    np.testing.assert_allclose(model.predict(X), Z @ coef, atol=1e-5)
    assert isinstance(model.expansion_, SumExpansion)


def test_newton_reaches_the_optimum_of_log_loss():
    labels = (Y > 0).astype(int)
    alpha = 1e-2
    model = KernelClassifier(
        features=BOTH, solver=NewtonCG(tol=1e-10), alpha=alpha, dtype="float64"
    ).fit(X, labels)
    Z = model.features_.transform(X).toarray()
    f = model.decision_function(X)
    # At the optimum the gradient is zero: alpha w = Z^T (y - p) / n, and f = Z w.
    slope = Z.T @ (labels - 1.0 / (1.0 + np.exp(-f))) / len(X)
    np.testing.assert_allclose(f, Z @ slope / alpha, atol=1e-4)


def test_a_saved_model_predicts_the_same(tmp_path):
    model = KernelRegressor(features=BOTH, solver="conjugate_gradient").fit(X, Y)
    rkhs.save(model, tmp_path / "model")
    np.testing.assert_array_equal(rkhs.load(tmp_path / "model").predict(X), model.predict(X))
    assert model.expansion_.coef.shape[0] <= model.features_.n_outputs
    assert model.expansion_.nbytes == sum(part.nbytes for part in model.expansion_.parts)
    np.testing.assert_allclose(
        model.expansion_.operator(RowSource(X)).matmat(model.expansion_.coef),
        model.expansion_.evaluate(RowSource(X)),
        atol=1e-5,
    )


def test_what_makes_no_sense_is_refused():
    for maps in ([], [Laplacian()], "nystrom"):
        with pytest.raises(ValueError, match="maps must be a list"):
            Concatenated(maps).fit(X)
    with pytest.raises(ValueError, match="side by side"):
        KernelRegressor(features=BOTH, solver=CoordinateDescent(), penalty="l1").fit(X, Y)
    with pytest.raises(ValueError, match="dense features"):
        KernelRegressor(features=BOTH, solver="sgd").fit(X, Y)
