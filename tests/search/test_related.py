"""Columns that have nothing to do with the target have no say."""

import time

import numpy as np
import pytest
from scipy import sparse

from rkhs import KernelClassifier, KernelRegressor
from rkhs.data import RowSource
from rkhs.kernels import Laplacian
from rkhs.search._related import learn_related


def noise(n_rows, n_columns, seed=0):
    return np.random.default_rng(seed).normal(size=(n_rows, n_columns))


def related(X, y, seed=0, **options):
    return learn_related(Laplacian(), RowSource(X), y, np.ones(len(X)), seed, **options)


def table(n_rows=3000):
    X, rng = noise(n_rows, 5), np.random.default_rng(1)
    X[:, 3] += X[:, 0]
    X[:, 4] = np.exp(2.0 * X[:, 1])  # a heavy tail
    X[::9, 2] = np.nan
    y = np.sin(2 * X[:, 0]) + X[:, 1] + np.nan_to_num(X[:, 2]) + 0.1 * rng.normal(size=n_rows)
    wide = noise(n_rows, 25, seed=3)
    wide[:, [3, 4, 11, 20, 24]] = X
    return X, y, wide


@pytest.mark.parametrize("Machine", [KernelRegressor, KernelClassifier])
def test_a_model_is_the_same_bit_by_bit_with_columns_of_noise(Machine):
    X, y, wide = table()
    y = y if Machine is KernelRegressor else np.where(y > 0, "more", "less")
    short, long = (Machine(random_state=0).fit(Z[:2000], y[:2000]) for Z in (X, wide))
    assert short.columns_ is None
    kept = long.preparation_.origin_[long.columns_]
    assert kept.tolist() == [[3, 4, 11, 20, 24][j] for j in short.preparation_.origin_]
    method = "predict" if Machine is KernelRegressor else "predict_proba"
    ours, theirs = getattr(short, method)(X[2000:]), getattr(long, method)(wide[2000:])
    np.testing.assert_array_equal(ours, theirs)
    assert set(np.flatnonzero(np.isfinite(long.length_scale_))) <= set(long.columns_)
    assert set(np.flatnonzero(long.feature_importances_)) <= {3, 4, 11, 20, 24}


def test_a_sparse_table_loses_its_columns_of_noise_too():
    wide = np.where(noise(3000, 25, seed=2) > 0, noise(3000, 25), 0.0)
    kept = [3, 11, 24]
    y = np.sin(2 * wide[:, 3]) + wide[:, 11] + 0.5 * wide[:, 24]
    tables = sparse.csr_array(wide[:, kept]), sparse.csr_array(wide)
    short, long = (KernelRegressor(random_state=0).fit(Z[:2000], y[:2000]) for Z in tables)
    assert long.columns_.tolist() == kept
    ours, theirs = (m.predict(Z[2000:]) for m, Z in zip((short, long), tables, strict=True))
    np.testing.assert_array_equal(ours, theirs)


def test_unrelated_columns_are_left_out_of_the_table():
    X = noise(3000, 30)
    y = np.sin(2 * X[:, :1]) + X[:, 1:2] + 0.1 * noise(3000, 1, seed=1)
    found = related(X, y)
    assert found.columns.tolist() == [0, 1]
    assert np.isfinite(found.scales.length_scale).all()
    np.testing.assert_array_equal(found.source[:5], X[:5, :2])
    wide = found.widened([[3.0, 4.0]], 0.0, 30)
    assert wide.shape == (1, 30) and wide[0, :2].tolist() == [3.0, 4.0] and not wide[0, 2:].any()


def test_rows_that_are_equal_without_them_become_one():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 100, 3000), noise(3000, 3)])
    found = related(X, np.sin(X[:, :1] / 20.0))
    assert found.columns.tolist() == [0]
    assert len(found.distinct.rows) == 100 and found.distinct.weight.sum() == 3000
    X[:, 0] %= 20  # too few to learn from and judge by
    assert len(related(X, X[:, :1]).distinct.rows) == 3000


def test_columns_of_noise_do_not_come_back_because_more_scales_fit_better():
    X, rng = noise(2500, 45), np.random.default_rng(1)
    y = np.sign(X[:, :1] + X[:, 1:2] * X[:, 2:3] + rng.normal(size=(2500, 1)))
    y[:, 0] += 0.3 * X[:, 1] + 0.3 * X[:, 2]
    for seed in range(3):
        assert (related(X, y, seed).columns >= 3).sum() <= 2


def test_what_was_learnt_without_columns_is_kept_when_time_is_up():
    X = noise(3000, 30)
    y = np.sin(2 * X[:, :1]) + 10 * np.random.default_rng(1).normal(size=(3000, 1))  # hardly learnt
    for seconds in (0.0, 0.2, 0.5):
        found = related(X, y, deadline=time.perf_counter() + seconds).scales
        assert found.error <= 1.2 and np.isfinite(found.length_scale).any()


def test_columns_whose_effect_shows_only_together_come_back():
    X = noise(3000, 6)
    y = X[:, :1] + 2 * np.sign(X[:, 1:2] * X[:, 2:3])  # neither of the two alone
    found = related(X, y)
    assert found.columns.tolist() == [0, 1, 2, 3, 4, 5]
    assert np.isfinite(found.scales.length_scale[:3]).all()
    assert found.scales.error < 0.6
