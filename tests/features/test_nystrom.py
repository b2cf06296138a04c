"""Nyström features: the kernel's projection on the span of the centres."""

import pickle

import numpy as np
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from rkhs.data import RowSource
from rkhs.expansion import KernelExpansion
from rkhs.features import Nystrom
from rkhs.kernels import Cauchy, Exponential, Gaussian, Laplacian, Matern

rng = np.random.default_rng(7)
X = rng.normal(size=(80, 3))
KERNELS = [
    Gaussian(),
    Exponential(),
    Matern(nu=2.5),
    Laplacian(),
    Cauchy(),
    3 * Gaussian() + 0.1 * Laplacian(),
]
SAMPLINGS = ["uniform", "kmeans++", "leverage"]


def residual(features, kernel, X=X):
    """K - Z Z^T."""
    Z = features.transform(X)
    return kernel(X) - Z @ Z.T


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("n_centers", [80, 500])
def test_features_are_exact_when_all_rows_are_centres(kernel, n_centers):
    features = Nystrom(n_centers, kernel, random_state=0).fit(X)
    assert features.n_outputs == 80
    assert np.abs(residual(features, kernel)).max() < 1e-6


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_products_of_features_are_the_nystrom_approximation(kernel, sampling):
    features = Nystrom(20, kernel, sampling, random_state=0).fit(X)
    assert len(features.centers_) == 20
    cross, inner = kernel(X, features.centers_), kernel(features.centers_)
    Z = features.transform(X)
    np.testing.assert_allclose(Z @ Z.T, cross @ np.linalg.solve(inner, cross.T), atol=1e-7)


def test_the_factor_is_lower_triangular_and_of_the_centres_gram_matrix():
    features = Nystrom(20, Gaussian(), random_state=0).fit(X)
    np.testing.assert_array_equal(np.triu(features.factor_, 1), 0)
    gram = Gaussian()(features.centers_)
    np.testing.assert_allclose(features.factor_ @ features.factor_.T, gram, atol=1e-12)


def test_centres_are_different_rows_of_the_data():
    features = Nystrom(20, Gaussian(), random_state=0).fit(X)
    rows = {tuple(row) for row in X}
    centers = {tuple(row) for row in features.centers_}
    assert len(centers) == 20
    assert centers <= rows


def test_what_is_left_is_positive_semidefinite():
    for n_centers in (5, 20, 60):
        left = residual(Nystrom(n_centers, Gaussian(), random_state=0).fit(X), Gaussian())
        assert np.linalg.eigvalsh(left).min() > -1e-7


def test_no_features_on_the_centres_span_are_better():
    # Trace of what is left: any other inner matrix leaves more; scaled by 1 %, too.
    features = Nystrom(20, Gaussian(), random_state=0).fit(X)
    cross = Gaussian()(X, features.centers_)
    best = np.linalg.norm(residual(features, Gaussian()))
    by_least_squares = np.linalg.pinv(cross) @ Gaussian()(X) @ np.linalg.pinv(cross).T
    least = np.linalg.norm(Gaussian()(X) - cross @ by_least_squares @ cross.T)
    assert least <= best < 3 * least
    # On the centres' own columns it is exact.
    Z, C = features.transform(X), features.transform(features.centers_)
    np.testing.assert_allclose(Z @ C.T, cross, atol=1e-8)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_errors_fall_with_more_centres(sampling):
    errors = [
        np.mean(
            [
                np.trace(
                    residual(Nystrom(m, Gaussian(), sampling, random_state=s).fit(X), Gaussian())
                )
                for s in range(5)
            ]
        )
        for m in (5, 10, 20, 40, 80)
    ]
    assert (np.diff(errors) < 0).all()
    assert abs(errors[-1]) < 1e-6


def test_the_order_of_nested_centres_only_adds():
    # Uniform keys are the same for each size: centres are nested, and errors fall for sure.
    few = Nystrom(10, Gaussian(), random_state=0).fit(X)
    many = Nystrom(30, Gaussian(), random_state=0).fit(X)
    assert {tuple(c) for c in few.centers_} <= {tuple(c) for c in many.centers_}
    assert (
        np.diagonal(residual(many, Gaussian())) < np.diagonal(residual(few, Gaussian())) + 1e-9
    ).all()


def test_float32_features_are_close_to_the_kernel():
    # The jitter of float32 rounding, 1e-7, is all that is lost beyond tiles' own rounding.
    rows = X.astype(np.float32)
    for kernel in (Gaussian(), Laplacian(), Matern(nu=1.5)):
        Z = Nystrom(80, kernel, random_state=0).fit_transform(rows)
        assert Z.dtype == np.float32
        np.testing.assert_allclose(Z @ Z.T, kernel(rows.astype(float)), atol=2e-3)


def test_a_smooth_kernel_of_many_centres_keeps_features_finite_and_bounded():
    # Almost singular: 300 centres on a line, far closer than the length scale.
    line = np.linspace(0, 1, 300)[:, None]
    for dtype in (np.float32, np.float64):
        Z = Nystrom(300, Gaussian(2.0), random_state=0).fit_transform(line.astype(dtype))
        np.testing.assert_allclose(Z @ Z.T, Gaussian(2.0)(line), atol=1e-3)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_duplicates_never_become_two_centres(sampling):
    rows = np.repeat(X[:10], 20, axis=0)
    features = Nystrom(50, Gaussian(), sampling, random_state=0).fit(rows)
    assert len(np.unique(features.centers_, axis=0)) == len(features.centers_) <= 10
    Z = features.transform(rows)
    assert np.isfinite(Z).all()
    if sampling == "kmeans++":  # it draws far rows first, so that it finds all ten
        np.testing.assert_allclose(Z @ Z.T, Gaussian()(rows), atol=1e-7)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("n_centers", [15, 40, 100])
def test_rows_of_weight_zero_are_never_centres(sampling, n_centers):
    weight = np.where(np.arange(80) % 2, 1.0, 0.0)
    for seed in range(5):
        features = Nystrom(n_centers, Gaussian(), sampling, random_state=seed)
        features.fit(X, sample_weight=weight)
        possible = {tuple(row) for row in X[weight > 0]}
        assert {tuple(c) for c in features.centers_} <= possible
        assert len(features.centers_) == min(n_centers, 40)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_the_order_of_rows_does_not_change_the_span_of_all_of_them(sampling):
    order = rng.permutation(80)
    first = Nystrom(80, Gaussian(), sampling, random_state=0).fit(X)
    second = Nystrom(80, Gaussian(), sampling, random_state=0).fit(X[order])
    np.testing.assert_array_equal(first.centers_, second.centers_)


def test_an_operator_is_the_transform():
    features = Nystrom(20, Gaussian(), random_state=0).fit(X)
    W = rng.normal(size=(20, 2))
    operator = features.operator(RowSource(X), np.float64)
    np.testing.assert_allclose(operator.matmat(W), features.transform(X) @ W, atol=1e-9)


def test_an_expansion_is_the_features_times_its_coefficients():
    features = Nystrom(20, Gaussian(), random_state=0).fit(X)
    coef = rng.normal(size=(20, 2))
    expansion = features.expansion(coef)
    assert isinstance(expansion, KernelExpansion)
    np.testing.assert_allclose(
        expansion.evaluate(RowSource(X)), features.transform(X) @ coef, atol=1e-8
    )
    np.testing.assert_allclose(
        expansion.evaluate(RowSource(X)), Gaussian()(X, features.centers_) @ expansion.coef
    )
    assert expansion.evaluate(RowSource(X[:0])).shape == (0, 2)
    assert expansion.nbytes == expansion.coef.nbytes + features.centers_.nbytes


def test_a_float32_expansion_survives_a_common_offset():
    # The rows hold their differences exactly; in float32 the offset would swallow them.
    rows = np.round(X * 64) / 64 + 2.0**24
    features = Nystrom(20, Gaussian(), random_state=0).fit(rows)
    coef = rng.normal(size=(20, 1)).astype(np.float32)
    values = features.expansion(coef).evaluate(RowSource(rows))
    np.testing.assert_allclose(values, features.transform(rows) @ coef, atol=1e-3)


def test_sparse_rows_have_the_same_features():
    rows = np.where(np.abs(X) > 0.5, X, 0.0)
    dense = Nystrom(20, Gaussian(), "kmeans++", random_state=0).fit(rows)
    thin = Nystrom(20, Gaussian(), "kmeans++", random_state=0).fit(sparse.csr_array(rows))
    np.testing.assert_allclose(thin.transform(sparse.csr_array(rows)), dense.transform(rows))


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_seed_decides_every_bit(sampling):
    def centers(seed):
        return Nystrom(10, Gaussian(), sampling, random_state=seed).fit(X).centers_

    np.testing.assert_array_equal(centers(3), centers(3))
    assert not np.array_equal(centers(3), centers(4))


def test_a_pickle_and_a_clone():
    features = Nystrom(10, Gaussian("auto"), random_state=0).fit(X)
    again = pickle.loads(pickle.dumps(features))
    np.testing.assert_array_equal(again.transform(X), features.transform(X))
    assert not hasattr(clone(features), "centers_")
    assert features.kernel.length_scale == "auto"


def test_feature_names_and_data_frames():
    features = Nystrom(4, Gaussian(), random_state=0).fit(X)
    names = [f"nystrom{i}" for i in range(4)]
    assert features.get_feature_names_out().tolist() == names
    Z = features.transform(X)
    frame = features.set_output(transform="pandas").transform(X)
    assert frame.columns.tolist() == names
    np.testing.assert_array_equal(frame.to_numpy(), Z)
    frame = features.set_output(transform="polars").transform(X)
    assert isinstance(frame, pl.DataFrame)
    assert frame.columns == names
    np.testing.assert_array_equal(frame.to_numpy(), Z)


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"n_centers": 0}, "n_centers must be a positive integer, got 0"),
        ({"n_centers": "many"}, "n_centers must be a positive integer, got 'many'"),
        ({"sampling": "random"}, "sampling must be one of 'uniform', 'kmeans.*got 'random'"),
        ({"kernel": "sigmoid"}, "kernel='sigmoid' is not known"),
        ({"kernel": -2 * Gaussian()}, "factor must be positive"),
    ],
)
def test_bad_arguments_are_refused_with_the_problem_named(parameters, problem):
    with pytest.raises(ValueError, match=problem):
        Nystrom(**parameters).fit(X)


@parametrize_with_checks([Nystrom()])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_centres_may_be_given():
    centers = rng.normal(size=(15, 3))
    features = Nystrom(kernel=Gaussian(), centers=centers).fit(X)
    assert features.n_outputs == 15
    cross, Z = Gaussian()(X, centers), features.transform(X)
    expected = cross @ np.linalg.solve(Gaussian()(centers), cross.T)
    np.testing.assert_allclose(Z @ Z.T, expected, atol=1e-7)
    assert clone(features).continues(features)
    other = centers.copy()
    other[7, 1] += 1e-9  # not to be seen in a printed array
    assert not clone(features).set_params(centers=other).continues(features)
    assert not clone(features).set_params(kernel=Laplacian()).continues(features)


@pytest.mark.parametrize(
    ("centers", "message"),
    [(np.zeros((4, 2)), "3 columns, got 2"), (np.full((4, 3), np.nan), "centers contains NaN")],
)
def test_given_centres_that_cannot_be_are_refused(centers, message):
    with pytest.raises(ValueError, match=message):
        Nystrom(centers=centers).fit(X)
