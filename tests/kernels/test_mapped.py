"""A kernel under a linear map is that kernel of the mapped rows."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import rkhs
from rkhs import KernelRegressor
from rkhs.features import Nystrom, RandomFourier
from rkhs.kernels import Exponential, Gaussian, Laplacian, Mapped, Matern

rng = np.random.default_rng(4)
X, Y = rng.normal(size=(30, 3)), rng.normal(size=(20, 3))
M = np.array([[1.0, -0.5, 0.3], [0.2, 0.8, 0.0]])  # fewer directions than columns

INSIDE = {
    "gaussian": Gaussian(0.7),
    "a scale for each direction": Exponential([1.0, 3.0]),
    "a product over the directions": Laplacian(2.0),
    "a sum": 0.5 * Gaussian() + Matern(3.0),
}
ALL = pytest.mark.parametrize("kernel", INSIDE.values(), ids=INSIDE)


@ALL
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 5e-6), (np.float64, 1e-12)])
def test_gram_matrices_are_those_of_mapped_rows(kernel, dtype, tolerance):
    gram = Mapped(kernel, M)(X.astype(dtype), Y.astype(dtype))
    assert gram.dtype == dtype
    np.testing.assert_allclose(gram, kernel(X @ M.T, Y @ M.T), atol=tolerance)
    np.testing.assert_allclose(Mapped(kernel, M).diag(X), kernel.diag(X @ M.T))


@ALL
@pytest.mark.parametrize("sampling", ["iid", "qmc"])
def test_products_of_random_features_have_it_as_their_mean(kernel, sampling):
    mapped, rows = Mapped(kernel, M), X[:5]
    estimates = []
    for seed in range(40):
        Z = RandomFourier(512, mapped, sampling, random_state=seed).fit_transform(rows)
        estimates.append(Z @ Z.T)
    error = np.mean(estimates, axis=0) - mapped(rows)
    standard_error = np.std(estimates, axis=0, ddof=1) / np.sqrt(40)
    assert standard_error.max() < 0.02
    assert (np.abs(error) < 4 * standard_error + 1e-12).all()


def test_orthogonal_frequencies_ask_what_is_inside():
    RandomFourier(8, Mapped(Gaussian(), M), "orthogonal").fit(X)
    with pytest.raises(ValueError, match="Laplacian is not one"):
        RandomFourier(8, Mapped(Laplacian(), M), "orthogonal").fit(X)


def test_nystrom_features_of_all_rows_are_exact():
    kernel = Mapped(Gaussian(), M)
    Z = Nystrom(30, kernel, random_state=0).fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, kernel(X), atol=1e-6)


def test_length_scales_from_data_are_those_of_mapped_rows():
    resolved = Mapped(Gaussian("auto"), M).resolve(X)
    expected = Gaussian("auto").resolve(X @ M.T)
    np.testing.assert_allclose(resolved.kernel.length_scale, expected.length_scale)


def test_the_length_scale_of_a_column_is_where_the_distance_is_one():
    kernel = Mapped(Exponential([2.0, 0.5]), M)
    for column, scale in enumerate(kernel.length_scale):
        step = scale * np.eye(3)[[column]]
        np.testing.assert_allclose(kernel(np.zeros((1, 3)), step), np.exp(-1.0))
    assert Mapped(Gaussian(), [[1.0, 0.0]]).length_scale[1] == np.inf


@pytest.mark.parametrize("features", [None, "nystrom", "random_fourier"])
def test_models_are_those_of_mapped_rows_and_survive_files(features, tmp_path):
    y = np.sin(X[:, 0])
    kernel = Mapped(Gaussian(1.5), M)
    settings = {"features": features, "alpha": 1e-3, "solver": "exact", "random_state": 0}
    model = KernelRegressor(kernel=kernel, **settings).fit(X, y)
    if features != "random_fourier":  # whose frequencies are others
        plain = KernelRegressor(kernel=Gaussian(1.5), **settings).fit(X @ M.T, y)
        np.testing.assert_allclose(model.predict(Y), plain.predict(Y @ M.T), atol=1e-5)
    rkhs.save(model, tmp_path / "model.safetensors")
    for again in (
        rkhs.load(tmp_path / "model.safetensors"),
        pickle.loads(pickle.dumps(model)),
        clone(model).fit(X, y),
    ):
        np.testing.assert_array_equal(again.predict(Y), model.predict(Y))


def test_parameters_and_their_picture():
    kernel = Mapped(Gaussian(), M).set_params(kernel__length_scale=3.0)
    np.testing.assert_allclose(kernel(X), Gaussian(3.0)(X @ M.T), atol=1e-12)
    assert repr(kernel) == "Mapped(Gaussian(length_scale=3.0), matrix of shape (2, 3))"


@pytest.mark.parametrize(
    ("matrix", "problem"),
    [
        (np.ones((2, 4)), r"shape \(2, 4\), but the data has 3 columns"),
        (np.ones(3), "a direction in each row"),
        (np.zeros((0, 3)), "a direction in each row"),
        ([[1.0, np.inf, 0.0]], "not finite"),
    ],
)
def test_matrices_that_make_no_sense_are_refused(matrix, problem):
    with pytest.raises(ValueError, match=problem):
        Mapped(Gaussian(), matrix)(X)
