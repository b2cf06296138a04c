"""Products with few vectors are those of NumPy, whatever their number."""

import numpy as np
import pytest

from rkhs.compute import gram_times, times, transposed_times

rng = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [1, 4, 11])
@pytest.mark.parametrize("n_vectors", range(1, 18))
def test_products_are_those_of_numpy(n_vectors, n_rows, dtype):
    tile = rng.normal(size=(n_rows, 37)).astype(np.float32)
    W = rng.normal(size=(37, n_vectors)).astype(dtype)
    V = rng.normal(size=(n_rows, n_vectors)).astype(dtype)
    scale = rng.random((n_rows, 1))
    exact = tile.astype(np.float64)
    tolerance = {"rtol": 0, "atol": 2e3 * np.finfo(dtype).eps}
    np.testing.assert_allclose(times(tile, W), exact @ W, **tolerance)
    np.testing.assert_allclose(transposed_times(tile, V), exact.T @ V, **tolerance)
    gram = exact.T @ (scale * (exact @ W))
    np.testing.assert_allclose(gram_times(tile, W, scale), gram, **tolerance)
