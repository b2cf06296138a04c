"""The short polynomials are as good as float32 allows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rkhs.compute import cosines, exponential, matern

EPS = float(np.finfo(np.float32).eps)


def test_float32_cosines_are_within_one_rounding_of_the_truth():
    # Whole and half turns, quarters (where the sign flips), and many between.
    u = np.concatenate([np.linspace(-3, 3, 200_001), np.arange(-12, 13) / 4]).astype(np.float32)
    tile = u[None].copy()
    cosines(tile, 1.0)
    error = np.abs(tile[0] - np.cos(2 * np.pi * u.astype(np.float64)))
    assert error.max() < EPS


def test_float32_cosines_of_many_turns_keep_the_fraction():
    u = (np.arange(-4000, 4000) + 0.125).astype(np.float32)[None]  # exact in float32
    tile = u.copy()
    cosines(tile, 1.0)
    np.testing.assert_allclose(tile, np.sqrt(0.5), atol=2 * EPS)


def test_float64_cosines_are_exact_to_rounding():
    u = np.linspace(-50, 50, 100_001)[None]
    tile = u.copy()
    cosines(tile, 1.0)
    np.testing.assert_allclose(tile, np.cos(2 * np.pi * (u - np.rint(u))), atol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(turns=st.floats(-1e6, 1e6), scale=st.floats(1e-3, 1e3))
def test_cosines_are_scaled_and_bounded(dtype, turns, scale):
    tile = np.array([[turns]], dtype)
    expected = scale * np.cos(2 * np.pi * (tile.astype(np.float64) % 1.0))
    cosines(tile, scale)
    assert tile.dtype == dtype
    np.testing.assert_allclose(tile, expected, atol=3 * EPS * scale)


def test_float32_exponentials_have_small_relative_errors():
    # The product with log2(e) is rounded once: an error of |x| roundings and two more.
    x = np.concatenate([np.linspace(-87, 87, 400_001), np.linspace(-1, 1, 100_001)])
    x = x.astype(np.float32)
    tile = x[None].copy()
    exponential(tile)
    truth = np.exp(x.astype(np.float64))
    relative = np.abs(tile[0] / truth - 1)
    assert (relative < (2 + np.abs(x)) * EPS).all()
    negative = x <= 0
    assert np.abs(tile[0] - truth)[negative].max() < 2 * EPS


def test_exponentials_of_zero_are_one():
    for dtype in (np.float32, np.float64):
        tile = np.zeros((2, 3), dtype)
        exponential(tile)
        np.testing.assert_array_equal(tile, 1.0)


def test_float32_exponentials_that_underflow_are_the_smallest_normal_number():
    tile = np.array([[-88.0, -1e3, -3e38]], np.float32)
    exponential(tile)
    np.testing.assert_array_equal(tile, np.float32(2.0**-126))


def test_float64_exponentials_are_exact_to_rounding():
    x = np.linspace(-800, 700, 10_001)[None]
    tile = x.copy()
    exponential(tile)
    np.testing.assert_allclose(tile, np.exp(x), rtol=1e-15)


def test_float32_matern_values_are_within_a_few_roundings_of_the_truth():
    s = np.concatenate([[0.0], np.geomspace(1e-4, 80, 200_001)])
    square = np.square(s).astype(np.float32)
    tile, s = square[None].copy(), np.sqrt(square.astype(np.float64))
    matern(tile)
    exact = (1.0 + s) * np.exp(-s)
    assert np.all(np.abs(tile[0] - exact) <= (2 * s + 4) * EPS * exact + 2.0**-120)


def test_float64_matern_values_are_exact_to_rounding():
    s = np.linspace(0.0, 50.0, 10_001)
    tile = np.square(s)[None]
    matern(tile)
    np.testing.assert_allclose(tile[0], (1.0 + s) * np.exp(-s), rtol=1e-13)
