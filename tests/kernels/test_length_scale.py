"""Length scales from data: the median trick, with weights as repetitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist

from rkhs.kernels import Cauchy, Exponential, Gaussian, Laplacian, Matern
from rkhs.kernels._length_scale import weighted_median

rng = np.random.default_rng(4)
X = rng.normal(size=(60, 3)) * [1.0, 10.0, 0.1]
KERNELS = [Gaussian, Exponential, Matern, Laplacian, Cauchy]
SPECS = pytest.mark.parametrize("spec", ["auto", "median"])
ALL = pytest.mark.parametrize("Kernel", KERNELS)


def scale(Kernel, spec, X, weight=None):
    return Kernel(spec).resolve(X, weight).length_scale


def lower_median(values):
    values = np.sort(values)
    return values[(len(values) - 1) // 2]


@given(st.lists(st.tuples(st.integers(-20, 20), st.integers(1, 5)), min_size=1, max_size=30))
def test_a_weighted_median_is_the_lower_median_of_repetitions(pairs):
    values, weight = np.array(pairs, dtype=float).T
    repeated = np.repeat(values, weight.astype(int))
    assert weighted_median(values, weight) == lower_median(repeated)
    one_each = np.ones(len(repeated))
    for share in (0.25, 0.5, 0.75):
        expected = weighted_median(values, weight, share)
        assert weighted_median(repeated, one_each, share) == expected


@pytest.mark.parametrize("Kernel", [Gaussian, Exponential, Matern])
def test_the_median_of_a_radial_kernel_is_the_median_distance(Kernel):
    assert scale(Kernel, "median", X) == pytest.approx(lower_median(pdist(X)), rel=1e-12)


@pytest.mark.parametrize(("Kernel", "metric"), [(Laplacian, "cityblock"), (Cauchy, "euclidean")])
def test_the_median_of_a_product_kernel_is_per_column(Kernel, metric):
    unit = np.array([lower_median(pdist(column[:, None])) for column in X.T])
    expected = unit * lower_median(pdist(X / unit, metric))
    np.testing.assert_allclose(scale(Kernel, "median", X), expected, rtol=1e-12)


@ALL
def test_auto_gives_each_column_its_standard_deviation_times_a_typical_distance(Kernel):
    unit = X.std(axis=0)
    distances = pdist(X / unit, "cityblock" if Kernel is Laplacian else "euclidean")
    expected = unit * lower_median(distances)
    np.testing.assert_allclose(scale(Kernel, "auto", X), expected, rtol=1e-10)


@ALL
@SPECS
def test_a_typical_pair_is_one_length_scale_apart(Kernel, spec):
    resolved = np.broadcast_to(scale(Kernel, spec, X), (3,))
    distances = pdist(X / resolved, "cityblock" if Kernel is Laplacian else "euclidean")
    assert np.median(distances) == pytest.approx(1.0, rel=0.02)


@ALL
@SPECS
def test_weights_are_repetitions(Kernel, spec):
    weight = rng.integers(0, 5, len(X))
    weighted = scale(Kernel, spec, X, weight)
    np.testing.assert_allclose(weighted, scale(Kernel, spec, np.repeat(X, weight, axis=0)))
    assert np.abs(weighted - scale(Kernel, spec, X)).max() > 0  # the weights matter here


@ALL
@SPECS
def test_the_order_of_rows_does_not_matter(Kernel, spec):
    order = rng.permutation(len(X))
    weight = rng.integers(1, 5, len(X))
    np.testing.assert_allclose(
        scale(Kernel, spec, X[order], weight[order]), scale(Kernel, spec, X, weight), rtol=1e-12
    )


@ALL
def test_auto_follows_the_units_of_each_column(Kernel):
    units = np.array([1e-6, 1e5, 3.0])
    np.testing.assert_allclose(
        scale(Kernel, "auto", X * units + 7.0), scale(Kernel, "auto", X) * units, rtol=1e-6
    )


@pytest.mark.parametrize(
    ("Kernel", "spec"), [(K, "auto") for K in KERNELS] + [(Laplacian, "median"), (Cauchy, "median")]
)
@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1, 1e6, -3e17])
def test_constant_columns_are_ignored(Kernel, spec, constant):
    with_constant = np.column_stack([X, np.full(len(X), constant)])
    resolved = scale(Kernel, spec, with_constant)
    assert np.isposinf(resolved[3])
    np.testing.assert_allclose(resolved[:3], scale(Kernel, spec, X), rtol=1e-12)
    np.testing.assert_allclose(Kernel(resolved)(with_constant), Kernel(resolved[:3])(X), atol=1e-12)


@ALL
@SPECS
def test_a_column_that_varies_is_never_ignored(Kernel, spec):
    # Float64 resolves this spread a thousand times over.
    times = np.column_stack([1.7e9 + 1e-3 * rng.normal(size=len(X))])
    resolved = np.broadcast_to(scale(Kernel, spec, times), (1,))
    assert 1e-4 < resolved[0] < 1e-2


@ALL
@SPECS
def test_rows_that_are_all_equal_give_a_kernel_of_ones(Kernel, spec):
    rows = np.full((5, 2), 3.0)
    np.testing.assert_array_equal(Kernel(spec).resolve(rows)(rows), np.ones((5, 5)))


@ALL
@SPECS
def test_one_row_is_enough(Kernel, spec):
    np.testing.assert_array_equal(Kernel(spec).resolve(X[:1])(X[:1]), [[1.0]])


@SPECS
def test_repeated_rows_do_not_pull_the_median_to_zero(spec):
    rows = np.vstack([np.zeros((50, 1)), [[1.0]], [[2.0]]])
    assert scale(Gaussian, spec, rows) >= (1.0 if spec == "median" else 0.1)


def test_numbers_are_left_alone():
    assert scale(Gaussian, 3.0, X) == 3.0
    assert scale(Gaussian, [1.0, 2.0, 3.0], X) == [1.0, 2.0, 3.0]


def test_other_parameters_survive():
    assert Matern("median", nu=2.5).resolve(X).nu == 2.5


def test_the_kernel_itself_is_not_changed():
    kernel = Gaussian("auto")
    kernel.resolve(X)
    assert kernel.length_scale == "auto"


def test_unknown_rules_are_refused():
    with pytest.raises(ValueError, match=r'"auto", "median", a number.*got \'mean\''):
        Gaussian("mean").resolve(X)
