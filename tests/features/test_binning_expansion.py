"""Functions on random binning without the bins that have no coefficient."""

import pickle

import numpy as np
import pytest
from helpers import table

import rkhs
from rkhs import KernelRegressor
from rkhs.data import RowSource
from rkhs.expansion import FeatureExpansion
from rkhs.features import RandomBinning
from rkhs.kernels import Laplacian

NEW_ROWS = np.random.default_rng(5).normal(size=(700, 3))


def fitted():
    X, _, _ = table(500)
    return RandomBinning(24, Laplacian(2.0), random_state=0).fit(X)


def sparse_coef(n_bins, share, outputs=2):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n_bins, outputs)) * (rng.random((n_bins, 1)) < share)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5])
def test_function_without_unused_bins_has_the_same_bits(share, dtype):
    binning = fitted()
    coef = sparse_coef(binning.n_outputs, share).astype(dtype)
    small = binning.expansion(coef)
    assert len(small.coef) == np.count_nonzero(coef[:, 0])
    assert small.nbytes < 0.8 * FeatureExpansion(binning, coef).nbytes
    source = RowSource(NEW_ROWS)
    expected = FeatureExpansion(binning, coef).evaluate(source)
    np.testing.assert_array_equal(small.evaluate(source), expected)
    again = pickle.loads(pickle.dumps(small))
    np.testing.assert_array_equal(again.evaluate(source), expected)


def test_few_unused_bins_are_not_worth_a_copy():
    binning = fitted()
    coef = sparse_coef(binning.n_outputs, 0.97)
    assert (coef == 0).any()
    assert binning.expansion(coef).feature_map is binning


def test_bins_that_one_output_uses_stay():
    binning = fitted()
    coef = np.zeros((binning.n_outputs, 2))
    coef[3, 0] = coef[7, 1] = 1.0
    small = binning.expansion(coef)
    np.testing.assert_array_equal(small.coef, np.eye(2))
    np.testing.assert_array_equal(small.feature_map.keys_, binning.keys_[[3, 7]])


def test_smaller_map_holds_no_training_rows():
    binning = fitted()
    small = binning.expansion(sparse_coef(binning.n_outputs, 0.1)).feature_map
    assert not {"_training", "_tables"} & set(vars(small))
    assert binning.n_outputs == len(binning.keys_) > small.n_outputs


def test_sparse_model_is_saved_and_loaded(tmp_path):
    X, y, _ = table(500)
    model = KernelRegressor(
        kernel=Laplacian(2.0), features=RandomBinning(24), penalty="l1", alpha=5e-3, random_state=0
    ).fit(X, y)
    assert len(model.expansion_.coef) < 0.5 * model.features_.n_outputs
    rkhs.save(model, tmp_path / "model")
    again = rkhs.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(NEW_ROWS), model.predict(NEW_ROWS))
    assert again.penalty == "l1"
    assert (tmp_path / "model").stat().st_size < 0.6 * 12 * model.features_.n_outputs + 10_000
