"""Whatever is wrong, the message names it."""

import numpy as np
import pandas as pd
import pytest
from helpers import table
from scipy import sparse

from rkhs import KernelClassifier, KernelRegressor
from rkhs.features import Nystrom, RandomFourier
from rkhs.kernels import Cauchy, Gaussian, Laplacian, Matern
from rkhs.losses import Pinball
from rkhs.solvers import ConjugateGradient

X, Y, CODES = table()


def with_value(value):
    rows = X.copy()
    rows[3, 1] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "target", "words"),
    [
        (with_value(np.nan), Y, "NaN"),
        (with_value(np.inf), Y, "infinity"),
        (X, np.where(Y > 0, np.nan, Y), "NaN"),
        (X, np.where(Y > 0, np.inf, Y), "infinity"),
        (X[:5], Y, "inconsistent numbers of samples"),
        (X[:0], Y[:0], "0 sample"),
        (X[:, :0], Y, "0 feature"),
        (X[:, 0], Y, "1D array"),
        (X[None], Y, "dim 3"),
        (X + 1j, Y, "Complex"),
        (X.astype(str), np.array(["a"] * len(X)), "could not convert|Unknown label|numeric"),
        (np.array([["a", "b"]] * len(X)), Y, "text|strings"),
        (X, None, "requires y to be passed"),
    ],
)
@pytest.mark.parametrize("features", [None, "nystrom"])
def test_bad_tables(rows, target, words, features):
    with pytest.raises(ValueError, match=words):
        KernelRegressor(features=features).fit(rows, target)


def test_text_columns_are_named():
    frame = pd.DataFrame({"age": [1.0, 2.0], "city": ["Rome", "Oslo"]})
    with pytest.raises(ValueError, match=r"'city'.*OneHotEncoder"):
        KernelRegressor(kernel="gaussian").fit(frame, [1.0, 2.0])
    model = KernelRegressor().fit(frame[["age"]], [1.0, 2.0])
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame)


def test_bad_rows_at_prediction():
    model = KernelRegressor().fit(X, Y)
    for rows, words in [
        (with_value(np.nan), "NaN"),
        (X[:, :2], "2 features, but KernelRegressor is expecting 3"),
        (X[:0], "0 sample"),
    ]:
        with pytest.raises(ValueError, match=words):
            model.predict(rows)


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="only one class"):
        KernelClassifier().fit(X, np.ones(len(X)))


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (np.zeros(len(X)), "zero"),
        (-np.ones(len(X)), "egative"),
        (np.full(len(X), np.nan), "NaN"),
        (np.ones(3), "shape"),
    ],
)
def test_bad_weights(weight, words):
    for model, target in ((KernelRegressor(), Y), (KernelClassifier(), CODES)):
        with pytest.raises(ValueError, match=words):
            model.fit(X, target, weight)
    with pytest.raises(ValueError, match=words):
        Nystrom().fit(X, sample_weight=weight)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"kernel": "gausian"}, r"kernel='gausian' is not known.*'gaussian'"),
        ({"loss": "mse"}, r"loss='mse' is not known.*'squared_error'"),
        ({"features": "fourier"}, r"features='fourier' is not known.*'random_fourier'"),
        ({"solver": "cg"}, r"solver='cg' is not known.*'conjugate_gradient'"),
        ({"solver": 3}, "solver=3 is not known"),
        ({"alpha": -1.0}, "alpha"),
        ({"alpha": "small"}, "alpha"),
        ({"alpha": np.nan}, "alpha"),
        ({"length_scale": -1.0}, "length_scale must be positive"),
        ({"length_scale": 0.0}, "length_scale must be positive"),
        ({"length_scale": [1.0, 2.0]}, "3 columns"),
        ({"length_scale": "mean"}, r'"auto", "median"'),
        ({"length_scale": 2.0, "kernel": Gaussian()}, "both given"),
        ({"tol": 1e-3, "solver": ConjugateGradient()}, "both given"),
        ({"max_epochs": 0}, "max_epochs"),
        ({"time_budget": -3}, "time_budget"),
        ({"memory_limit": "lots"}, "memory_limit"),
        ({"memory_limit": -1}, "memory_limit"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"n_jobs": "two"}, "n_jobs"),
        ({"max_epochs": 2.5}, "max_epochs"),
        ({"kernel": "matern", "features": Nystrom(5, kernel="gaussian")}, "each name a kernel"),
        ({"kernel": Matern(nu=np.inf)}, "nu must be positive and finite"),
        ({"dtype": "float16"}, "dtype"),
        ({"early_stopping": True, "validation_fraction": 1.5}, "validation_fraction"),
        ({"loss": Pinball(1.5)}, "quantile"),
        ({"loss": "absolute_error", "solver": "newton_cg"}, r"smooth loss.*exact"),
        ({"loss": "huber", "solver": "conjugate_gradient"}, r"quadratic loss.*newton_cg"),
        ({"features": None, "solver": "sgd"}, "works on features"),
        ({"features": RandomFourier(0)}, "n_features must be a positive integer"),
        ({"features": Nystrom(2.5)}, "n_centers must be a positive integer"),
        ({"features": Nystrom(5, sampling="grid")}, "sampling must be one of"),
        (
            {"kernel": "laplacian", "features": RandomFourier(8, sampling="orthogonal")},
            r"rotation-invariant.*Laplacian.*qmc",
        ),
        (
            {"kernel": Cauchy() + Laplacian(), "features": RandomFourier(8, sampling="orthogonal")},
            "rotation-invariant",
        ),
    ],
    ids=str,
)
def test_bad_parameters_are_refused_before_any_work(parameters, words):
    with pytest.raises(ValueError, match=words):
        KernelRegressor(**parameters).fit(X, Y)


@pytest.mark.parametrize("scale", [1e30, 1e150, 1e-150])
@pytest.mark.parametrize("features", [None, "nystrom", "random_fourier"])
def test_huge_and_tiny_values_give_finite_predictions(scale, features):
    rows = X * scale
    model = KernelRegressor(features=features, random_state=0).fit(rows, Y)
    assert np.isfinite(model.predict(rows)).all()
    assert np.isfinite(model.predict(rows * 1e10)).all()
    assert np.isfinite(KernelRegressor(length_scale=1.0).fit(rows, Y).predict(rows)).all()


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("length_scale", ["auto", "median", 1e307])
def test_values_whose_squares_overflow_are_refused_by_column(kind, length_scale):
    X, y, _ = table()
    X[7, 1] = 1e307
    with pytest.raises(ValueError, match=r"Column 1 has values as large as 1e\+307.*Divide"):
        KernelRegressor(kernel="gaussian", length_scale=length_scale).fit(kind(X), y)


def test_huge_targets_are_fitted_or_refused():
    model = KernelRegressor(alpha=1e-6).fit(X, 1e150 * Y)
    expected = KernelRegressor(alpha=1e-6).fit(X, Y).predict(X)
    np.testing.assert_allclose(model.predict(X) / 1e150, expected, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-40, 1e38])
@pytest.mark.parametrize(
    "settings",
    [
        {"features": "nystrom"},
        {"kernel": "laplacian", "features": "random_binning"},
        {"solver": "cdsg"},
    ],
    ids=["centres", "grids", "stream"],
)
def test_targets_beyond_single_precision_are_refused(scale, settings):
    with pytest.raises(ValueError, match=r"largest target.*Multiply the targets"):
        KernelRegressor(**settings).fit(X, scale * Y)
    if "solver" in settings:
        with pytest.raises(ValueError, match="largest target"):
            KernelRegressor(**settings).partial_fit(X, scale * Y)
        model = KernelRegressor(**settings).partial_fit(X, Y)
        with pytest.raises(ValueError, match="largest target"):
            model.partial_fit(X, scale * Y)


@pytest.mark.parametrize("scale", [1e-40, 1e38])
def test_a_search_refuses_targets_beyond_single_precision(scale):
    rows = np.random.default_rng(0).normal(size=(1200, 2))
    with pytest.raises(ValueError, match="largest target"):
        KernelRegressor().fit(rows, scale * rows[:, 0])
