"""Exact Gram matrices against independent formulas and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import special
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import kernels as reference
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from rkhs.kernels import (
    KERNELS,
    Cauchy,
    Exponential,
    Gaussian,
    Laplacian,
    Matern,
    RationalQuadratic,
)

rng = np.random.default_rng(1)
X, Y = rng.normal(size=(600, 4)), rng.normal(size=(50, 4))  # more than one tile of rows
SCALES = np.array([0.5, 1.0, 2.0, 4.0])


def product_cauchy(X, Y):
    return np.prod(1 / (1 + (X[:, None] - Y[None]) ** 2), axis=2)


# Each kernel for length scale 1, and the truth of rows in units of the length scale.
TRUTH = {
    "gaussian": (Gaussian(), lambda X, Y: rbf_kernel(X, Y, gamma=0.5)),
    "laplacian": (Laplacian(), lambda X, Y: laplacian_kernel(X, Y, gamma=1.0)),
    "exponential": (Exponential(), lambda X, Y: np.exp(-cdist(X, Y))),
    "cauchy": (Cauchy(), product_cauchy),
    "rational quadratic 1": (
        RationalQuadratic(),
        lambda X, Y: reference.RationalQuadratic(1.0, alpha=1.0)(X, Y),
    ),
    "rational quadratic 0.3": (
        RationalQuadratic(exponent=0.3),
        lambda X, Y: reference.RationalQuadratic(1.0, alpha=0.3)(X, Y),
    ),
    **{
        f"matern {nu}": (Matern(nu=nu), lambda X, Y, nu=nu: reference.Matern(1.0, nu=nu)(X, Y))
        for nu in (0.5, 1.5, 2.5, 0.8, 3.7, 12.0)
    },
}
ALL = pytest.mark.parametrize(("kernel", "truth"), TRUTH.values(), ids=TRUTH)


def with_length_scale(kernel, length_scale):
    return type(kernel)(**{**kernel.get_params(), "length_scale": length_scale})


@ALL
@pytest.mark.parametrize("scale", [1.0, 0.7, 3, SCALES], ids=["1", "0.7", "3", "per column"])
def test_float64_gram_matrices_are_exact(kernel, truth, scale):
    gram = with_length_scale(kernel, scale)(X, Y)
    assert gram.dtype == np.float64
    np.testing.assert_allclose(gram, truth(X / scale, Y / scale), atol=1e-12)


@ALL
@pytest.mark.parametrize("scale", [1.0, SCALES], ids=["one", "per column"])
def test_float32_gram_matrices_of_different_rows_are_exact_to_rounding(kernel, truth, scale):
    A, B = X.astype(np.float32), Y.astype(np.float32)
    gram = with_length_scale(kernel, scale)(A, B)
    assert gram.dtype == np.float32
    np.testing.assert_allclose(gram, truth(A / scale, B / scale), atol=1e-5)


@ALL
def test_float32_gram_matrices_of_equal_rows_are_exact_to_rounding(kernel, truth):
    # A distance of zero must not come out as the root of a rounding error.
    A = X[:150].astype(np.float32)
    gram = kernel(A)
    np.testing.assert_allclose(np.diagonal(gram), 1.0, atol=3e-5)
    np.testing.assert_allclose(gram, truth(A.astype(float), A.astype(float)), atol=3e-5)


@ALL
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_gram_matrix_is_symmetric_with_the_diagonal_of_diag(kernel, truth, dtype):
    rows = X[:150].astype(dtype)
    gram = kernel(rows)
    np.testing.assert_allclose(gram, gram.T, atol=1e-6 if dtype == np.float32 else 1e-14)
    tolerance = 3e-5 if dtype == np.float32 else 1e-6
    np.testing.assert_allclose(np.diagonal(gram), kernel.diag(rows), atol=tolerance)


@ALL
@pytest.mark.parametrize(("dtype", "offset"), [(np.float64, 1e9), (np.float32, 1e4)])
def test_a_common_offset_changes_nothing(kernel, truth, dtype, offset):
    # Offsets that the type can hold with the differences: rounding of the input itself is
    # taken out by comparing with the rows that were given.
    A, B = (X + offset).astype(dtype), (Y + offset).astype(dtype)
    gram = kernel(A, B)
    expected = truth(A.astype(float) - offset, B.astype(float) - offset)
    np.testing.assert_allclose(gram, expected, atol=1e-9 if dtype == np.float64 else 1e-5)


@ALL
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_far_from_all_others_are_far_from_each_other_too(kernel, truth, dtype):
    # Most rows at zero, so that the far ones lie on the same side of any middle.
    rows = np.zeros((9, 2), dtype)
    rows[:4, 0] = [1e12, 2e12, -1e12, 3e12]
    gram = kernel(rows)
    np.testing.assert_allclose(gram, truth(rows.astype(float), rows.astype(float)), atol=1e-5)


@ALL
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("outlier", [1e6, 1e12])
def test_one_absurd_row_does_not_blur_the_others(kernel, truth, dtype, outlier):
    rows = np.vstack([Y, np.full((1, 4), outlier)]).astype(dtype)
    gram = kernel(rows[:10], rows)
    np.testing.assert_allclose(gram, truth(rows[:10].astype(float), rows.astype(float)), atol=1e-3)


@ALL
@pytest.mark.parametrize("largest", [np.float64(1e300), np.float32(3e38)])
def test_the_largest_values_stay_finite(kernel, truth, largest):
    rows = np.array([[0.0], [1.0], [-1.0]], largest.dtype) * largest
    np.testing.assert_allclose(kernel(rows), np.eye(3), atol=1e-5)


@ALL
def test_an_infinite_length_scale_ignores_its_column(kernel, truth):
    gram = with_length_scale(kernel, [1.0, np.inf, 1.0, np.inf])(X, Y)
    np.testing.assert_allclose(gram, truth(X[:, [0, 2]], Y[:, [0, 2]]), atol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_gram_matrices_are_positive_semidefinite(name, data):
    shape = data.draw(st.tuples(st.integers(1, 12), st.integers(1, 4)))
    rows = data.draw(arrays(np.float64, shape, elements=st.floats(-5, 5, width=32)))
    scale = data.draw(st.floats(0.1, 10))
    gram = KERNELS[name](length_scale=scale)(rows)
    np.testing.assert_allclose(gram, gram.T, atol=1e-12)
    assert np.linalg.eigvalsh(gram).min() > -1e-7 * len(gram)
    assert gram.max() <= 1 + 1e-12
    assert gram.min() >= 0


@pytest.mark.parametrize("nu", [0.3, 0.5, 1.5, 2.5, 4.2, 30.0, 200.0, 1000.0])
def test_matern_is_its_mixture_of_gaussians(nu):
    # k(r) = E exp(-r^2 nu / (2 g)) with g ~ Gamma(nu), summed over an even grid of log g.
    distances = np.array([0.0, 0.05, 0.3, 1.0, 2.5])
    grid = np.linspace(-120, 12, 40_001)
    density = np.exp(nu * grid - np.exp(grid) - special.gammaln(nu)) * (grid[1] - grid[0])
    exponent = -(distances[:, None] ** 2) * nu / (2 * np.exp(grid))
    expected = np.exp(np.maximum(exponent, -700)) @ density
    gram = Matern(nu=nu)(np.zeros((1, 1)), distances[:, None])
    np.testing.assert_allclose(gram[0], expected, atol=1e-6)


@pytest.mark.parametrize("nu", [0.8, 3.7])
@pytest.mark.parametrize("distance", [1e-300, 1e-12, 700.0, 1e5, 1e12])
def test_matern_of_general_smoothness_has_the_right_limits(nu, distance):
    value = Matern(nu=nu)([[0.0]], [[distance]])[0, 0]
    assert value == pytest.approx(1.0 if distance < 1 else 0.0, abs=1e-12)


def test_known_relations_between_kernels_hold():
    np.testing.assert_allclose(Matern(nu=0.5)(X, Y), Exponential()(X, Y), atol=1e-14)
    np.testing.assert_allclose(RationalQuadratic(exponent=1e7)(X, Y), Gaussian()(X, Y), atol=1e-6)
    rotation_invariant = 1 / (1 + cdist(X, Y, "sqeuclidean") / 4)
    rational = RationalQuadratic(length_scale=2 / np.sqrt(2))(X, Y)
    np.testing.assert_allclose(rational, rotation_invariant, atol=1e-14)
    np.testing.assert_allclose(Laplacian()(X[:, :1]), Exponential()(X[:, :1]), atol=1e-7)


@pytest.mark.parametrize("length_scale", [0, -1.0, np.nan, [1.0, 0.0, 1.0, 1.0]])
def test_length_scales_that_are_not_positive_are_refused(length_scale):
    with pytest.raises(ValueError, match="length_scale must be positive"):
        Gaussian(length_scale)(X)


def test_the_wrong_number_of_length_scales_is_refused():
    with pytest.raises(ValueError, match=r"length_scale has shape \(3,\), .* 4 columns"):
        Gaussian([1.0, 2.0, 3.0])(X)


def test_a_length_scale_still_to_be_computed_is_refused():
    with pytest.raises(ValueError, match=r"no numeric length scale yet. Call kernel.resolve"):
        Gaussian("auto")(X)


def test_tables_with_different_columns_are_refused():
    with pytest.raises(ValueError, match="X has 4 columns and Y has 3"):
        Gaussian()(X, Y[:, :3])


@pytest.mark.parametrize(
    ("kernel", "problem"),
    [
        (RationalQuadratic(exponent=0.0), "exponent must be positive"),
        (RationalQuadratic(exponent=-1.0), "exponent must be positive"),
        (Matern(nu=0.0), "nu must be positive"),
        (Matern(nu=-0.5), "nu must be positive"),
    ],
)
def test_shape_parameters_that_are_not_positive_are_refused(kernel, problem):
    with pytest.raises(ValueError, match=problem):
        kernel(X)


def test_values_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="NaN"):
        Gaussian()([[np.nan]])


def test_mixed_types_give_the_wider_one():
    assert Gaussian()(X.astype(np.float32), Y).dtype == np.float64
    assert Gaussian()([[1, 2]], [[3, 4]]).dtype == np.float64


def test_a_call_changes_neither_kernel_nor_data():
    kernel, rows = Gaussian(SCALES), X.copy()
    kernel(rows)
    np.testing.assert_array_equal(rows, X)
    assert kernel.get_params() == {"length_scale": SCALES}


def test_a_representation_shows_every_parameter():
    assert repr(Matern(nu=2.5)) in (
        "Matern(length_scale=1.0, nu=2.5)",
        "Matern(nu=2.5, length_scale=1.0)",
    )
