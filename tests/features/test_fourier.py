"""Random Fourier features against the exact kernel, with tolerances from standard errors."""

import copy
import pickle

import numpy as np
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from rkhs.compute import uniform
from rkhs.data import RowSource
from rkhs.expansion import FeatureExpansion
from rkhs.features import RandomFourier
from rkhs.kernels import Cauchy, Exponential, Gaussian, Laplacian, Matern, RationalQuadratic

rng = np.random.default_rng(5)
X = rng.normal(size=(5, 3)) * 0.8
PAIRS = np.triu_indices(len(X), k=1)
SCALES = np.array([0.5, 1.0, 2.0])

RADIAL = {
    "gaussian": Gaussian(0.7),
    "gaussian, one scale a column": Gaussian(SCALES),
    "exponential": Exponential(1.5),
    "matern 1.5": Matern(2.0, nu=1.5),
    "matern 0.8": Matern(2.0, nu=0.8),
    "rational quadratic": RationalQuadratic(0.7),
    "rational quadratic 0.4": RationalQuadratic(0.7, exponent=0.4),
    "multiple": 3 * Gaussian(),
    "sum": 0.5 * Gaussian(0.5) + 2 * Exponential(3.0),
    "product": Gaussian(1.5) * Matern(3.0, nu=2.5),
    "product of a sum": (Gaussian() + 3 * Gaussian(0.3)) * (0.5 * Matern(3.0)),
}
PRODUCTS = {
    "laplacian": Laplacian(2.0),
    "laplacian, one scale a column": Laplacian(2 * SCALES),
    "cauchy": Cauchy(1.5),
    "sum with a laplacian": Gaussian() + 0.3 * Laplacian(3.0),
    "product with a cauchy": Gaussian(2.0) * Cauchy(3.0),
}
ALL = RADIAL | PRODUCTS
WAYS = [(name, s) for name in ALL for s in ("iid", "qmc")] + [(n, "orthogonal") for n in RADIAL]


def products(kernel, n_features, sampling, seeds, rows=X):
    """z(x).z(x') of each pair of rows, for each seed: (seeds, pairs)."""
    pairs = np.triu_indices(len(rows), k=1)
    out = []
    for seed in range(seeds):
        features = RandomFourier(n_features, kernel, sampling, random_state=seed)
        Z = features.fit_transform(rows)
        out.append((Z @ Z.T)[pairs])
    return np.array(out)


def assert_unbiased(estimates, truth):
    """The mean over seeds is within 4 standard errors, taken from the spread over seeds."""
    error = estimates.mean(axis=0) - truth
    standard_error = estimates.std(axis=0, ddof=1) / np.sqrt(len(estimates))
    assert (np.abs(error) < 4 * standard_error).all(), error / standard_error


@pytest.mark.parametrize(("name", "sampling"), WAYS)
def test_products_of_features_have_the_kernel_as_their_mean(name, sampling):
    # 40 seeds of 512 frequencies: a standard error below 0.006 k(x, x).
    estimates = products(ALL[name], 1024, sampling, seeds=40)
    assert_unbiased(estimates, ALL[name](X)[PAIRS])


@pytest.mark.parametrize("sampling", ["iid", "orthogonal", "qmc"])
@pytest.mark.parametrize("n_features", [1, 2, 7, 1025, 1100])
def test_any_number_of_features_is_unbiased(n_features, sampling):
    # Single cosines, odd ones, a second block of one feature, a second block cut short.
    kernel = 2 * Gaussian(0.7)
    estimates = products(kernel, n_features, sampling, seeds=200 if n_features < 10 else 40)
    assert_unbiased(estimates, kernel(X)[PAIRS])


@pytest.mark.parametrize("sampling", ["iid", "orthogonal", "qmc"])
@pytest.mark.parametrize("name", RADIAL)
def test_pairs_have_the_exact_length(name, sampling):
    Z = RandomFourier(64, RADIAL[name], sampling, random_state=0).fit_transform(X)
    np.testing.assert_allclose((Z**2).sum(axis=1), RADIAL[name].diag(X), rtol=1e-12)


@pytest.mark.parametrize("name", ["gaussian", "laplacian", "sum"])
def test_the_variance_of_independent_pairs_is_the_theoretical_one(name):
    # Var of z(x).z(x') = (k(0) (k(0) + k(2d)) - 2 k(d)^2) / n for the difference d.
    # The standard error of the measured variance comes from its fourth moment over seeds.
    n_features, seeds = 8, 300
    kernel = ALL[name]
    estimates = products(kernel, n_features, "iid", seeds)
    top = kernel.diag(X)[0]
    doubled = kernel(2 * X)[PAIRS]
    theory = (top * (top + doubled) - 2 * kernel(X)[PAIRS] ** 2) / n_features
    squares = (estimates - estimates.mean(axis=0)) ** 2
    standard_error = squares.std(axis=0) / np.sqrt(seeds)
    assert (4 * standard_error < 0.5 * theory).all()  # a factor two would show
    assert (np.abs(squares.mean(axis=0) - theory) < 4 * standard_error).all()


@pytest.mark.parametrize(
    ("name", "sampling", "n_features"),
    [
        ("gaussian", "orthogonal", 32),
        ("gaussian", "orthogonal", 256),
        ("matern 1.5", "orthogonal", 256),
        ("gaussian", "qmc", 256),
        ("gaussian", "qmc", 1024),
        ("laplacian", "qmc", 1024),
        ("cauchy", "qmc", 1024),
        ("matern 1.5", "qmc", 1024),
    ],
)
def test_spread_frequencies_have_a_lower_error_than_independent_ones(name, sampling, n_features):
    # Mean squared error over pairs, one number a seed; the difference of the means is
    # compared with its standard error over seeds.
    columns = 16 if sampling == "orthogonal" else 4
    rows = np.random.default_rng(6).normal(size=(20, columns))
    length_scale = 0.9 * np.sqrt(2 * columns) * (2 if name == "laplacian" else 1)
    kernel = type(ALL[name])(length_scale)
    truth = kernel(rows)[np.triu_indices(len(rows), k=1)]

    def errors(way):
        return ((products(kernel, n_features, way, 30, rows) - truth) ** 2).mean(axis=1)

    independent, spread = errors("iid"), errors(sampling)
    gain = independent.mean() - spread.mean()
    standard_error = np.sqrt((independent.var(ddof=1) + spread.var(ddof=1)) / 30)
    assert gain > 4 * standard_error


@pytest.mark.parametrize("sampling", ["iid", "orthogonal", "qmc"])
@pytest.mark.parametrize("n_features", [1, 6, 7, 1024, 1031, 2049])
def test_transform_is_what_the_blocks_give_by_hand(n_features, sampling):
    kernel = 2 * Gaussian(SCALES)
    features = RandomFourier(n_features, kernel, sampling, random_state=3).fit(X)
    columns = []
    for index in range(-(-n_features // 1024)):
        turns = (X - features.shift_) @ features.block(index)
        width = min(1024, n_features - 1024 * index)
        assert turns.shape[1] == (width + 1) // 2
        pairs = turns[:, : width // 2]
        columns += [np.cos(2 * np.pi * pairs), np.sin(2 * np.pi * pairs)]
        if width % 2:
            phase = uniform(features.seed_, 1003, index, (1,))
            columns.append(np.cos(2 * np.pi * (turns[:, -1:] + phase)))
    expected = np.sqrt(2 * 2 / n_features) * np.hstack(columns)
    np.testing.assert_allclose(features.transform(X), expected, atol=1e-11)


def test_more_features_start_with_the_same_frequencies():
    few = RandomFourier(10, Gaussian(), random_state=1).fit(X).block(0)
    many = RandomFourier(2000, Gaussian(), random_state=1).fit(X)
    np.testing.assert_array_equal(many.block(0)[:, :5], few)
    assert not np.isin(many.block(1), many.block(0)).any()


@pytest.mark.parametrize("sampling", ["iid", "orthogonal", "qmc"])
def test_a_seed_decides_every_bit(sampling):
    def features(seed):
        return RandomFourier(
            50, Laplacian() if sampling != "orthogonal" else Gaussian(), sampling, seed
        )

    first = features(4).fit_transform(X)
    np.testing.assert_array_equal(features(4).fit_transform(X), first)
    assert np.abs(features(5).fit_transform(X) - first).max() > 0.01


def test_float32_features_are_close_to_float64_ones():
    features = RandomFourier(200, Gaussian(), random_state=0).fit(X)
    single = features.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    exact = features.transform(X.astype(np.float32).astype(np.float64))
    np.testing.assert_allclose(single, exact, atol=1e-6)


def test_float32_features_survive_a_common_offset():
    # Powers of two, so that the rows themselves lose nothing.
    rows = np.round(X * 64) / 64
    plain = RandomFourier(100, Gaussian(), random_state=0).fit_transform(rows)
    moved = RandomFourier(100, Gaussian(), random_state=0).fit_transform(
        (rows + 2.0**14).astype(np.float32)
    )
    np.testing.assert_allclose(moved @ moved.T, plain @ plain.T, atol=1e-5)


def test_float32_features_survive_one_absurd_row():
    rows = np.vstack([X, np.full((1, 3), 1e8)])
    plain = RandomFourier(100, Gaussian(), random_state=0).fit(X)
    features = RandomFourier(100, Gaussian(), random_state=0).fit(rows)
    Z, expected = features.transform(X.astype(np.float32)), plain.transform(X)
    np.testing.assert_allclose(Z @ Z.T, expected @ expected.T, atol=1e-3)


@pytest.mark.parametrize("length_scale", [1.0, 1e-25])
@pytest.mark.parametrize("largest", [np.float64(1e300), np.float32(3e38)])
def test_the_largest_values_have_finite_features(largest, length_scale):
    features = RandomFourier(101, Gaussian(length_scale), random_state=0).fit(X)
    assert np.isfinite(features.transform(np.full((2, 3), largest))).all()


def test_sparse_rows_have_the_same_features():
    features = RandomFourier(30, Gaussian(), random_state=0).fit(sparse.csr_array(X))
    np.testing.assert_allclose(features.transform(sparse.csc_array(X)), features.transform(X))


def test_weights_are_repetitions():
    weight = np.array([3, 0, 1, 2, 1])
    for kernel in ("gaussian", "laplacian", Matern("median")):
        weighted = RandomFourier(30, kernel, random_state=0).fit(X, sample_weight=weight)
        repeated = RandomFourier(30, kernel, random_state=0).fit(np.repeat(X, weight, axis=0))
        np.testing.assert_allclose(weighted.transform(X), repeated.transform(X), atol=1e-10)


def test_the_default_kernel_is_a_gaussian_in_the_units_of_the_data():
    features = RandomFourier(random_state=0).fit(X)
    assert repr(features.kernel_) == repr(Gaussian("auto").resolve(X))
    assert features.n_outputs == 1000


def test_an_expansion_is_the_features_times_its_coefficients():
    features = RandomFourier(40, Gaussian(), random_state=0).fit(X)
    coef = rng.normal(size=(40, 2))
    expansion = features.expansion(coef)
    assert isinstance(expansion, FeatureExpansion)
    np.testing.assert_allclose(expansion.evaluate(RowSource(X)), features.transform(X) @ coef)
    assert expansion.evaluate(RowSource(X[:0])).shape == (0, 2)
    assert expansion.nbytes == coef.nbytes


def test_a_pickle_holds_a_law_and_a_seed_not_frequencies():
    wide = rng.normal(size=(20, 200))
    features = RandomFourier(5000, Gaussian(15.0), random_state=0).fit(wide)
    before = features.transform(wide)
    data = pickle.dumps(features)
    assert len(data) < 10_000  # the frequencies take 4 MB
    np.testing.assert_array_equal(pickle.loads(data).transform(wide), before)
    np.testing.assert_array_equal(copy.deepcopy(features).transform(wide), before)


def test_a_refit_forgets_the_old_frequencies():
    features = RandomFourier(20, Gaussian(), random_state=0).fit(X)
    first = features.transform(X)
    features.set_params(random_state=1).fit(X)
    expected = RandomFourier(20, Gaussian(), random_state=1).fit(X).transform(X)
    np.testing.assert_array_equal(features.transform(X), expected)
    assert np.abs(expected - first).max() > 0.01


def test_fitting_leaves_the_parameters_alone():
    kernel = Gaussian("auto")
    features = RandomFourier(20, kernel, "qmc", random_state=7)
    features.fit(X)
    assert features.kernel is kernel
    assert kernel.length_scale == "auto"
    assert clone(features).get_params()["kernel"].length_scale == "auto"
    assert not hasattr(clone(features), "seed_")


def test_feature_names_and_data_frames():
    features = RandomFourier(5, Gaussian(), random_state=0).fit(X)
    names = [f"randomfourier{i}" for i in range(5)]
    assert features.get_feature_names_out().tolist() == names
    Z = features.transform(X)
    frame = features.set_output(transform="pandas").transform(X)
    assert frame.columns.tolist() == names
    np.testing.assert_array_equal(frame.to_numpy(), Z)
    table = pl.DataFrame(X, schema=["a", "b", "c"])
    features = RandomFourier(5, Gaussian(), random_state=0).set_output(transform="polars")
    frame = features.fit_transform(table)
    assert isinstance(frame, pl.DataFrame)
    assert frame.columns == names
    np.testing.assert_allclose(frame.to_numpy(), Z, atol=1e-14)


def test_names_are_refused_before_fitting():
    with pytest.raises(NotFittedError):
        RandomFourier(5).get_feature_names_out()


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"n_features": 0}, "n_features must be a positive integer, got 0"),
        ({"n_features": 2.5}, r"n_features must be a positive integer, got 2\.5"),
        ({"n_features": True}, "n_features must be a positive integer, got True"),
        ({"sampling": "sobol"}, r"sampling must be one of 'iid', 'orthogonal', 'qmc'; got 'sobol'"),
        ({"kernel": "gauss"}, r"kernel='gauss' is not known. Use one of 'gaussian'"),
        ({"kernel": 3}, "kernel=3 is not known"),
        ({"kernel": Gaussian(-1.0)}, "length_scale must be positive"),
        ({"kernel": Gaussian([1.0, 2.0])}, r"length_scale has shape \(2,\)"),
        ({"kernel": Matern(nu=-1.0)}, "nu must be positive"),
        ({"kernel": RationalQuadratic(exponent=0.0)}, "exponent must be positive"),
        ({"kernel": -1 * Gaussian()}, "factor must be positive"),
        (
            {"kernel": Gaussian() + Laplacian(), "sampling": "orthogonal"},
            "needs a rotation-invariant kernel, and Laplacian is not one",
        ),
    ],
)
def test_bad_arguments_are_refused_with_the_problem_named(parameters, problem):
    with pytest.raises(ValueError, match=problem):
        RandomFourier(**parameters).fit(X)


def test_weights_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="non-zero"):
        RandomFourier().fit(X, sample_weight=np.zeros(5))
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        RandomFourier().fit(X, sample_weight=[1, 1, 1, 1, -1])


@parametrize_with_checks([RandomFourier()])
def test_scikit_learns_checks(estimator, check):
    check(estimator)
