"""Columns that nothing joins to the target."""

import tracemalloc

import numpy as np
import pytest

from rkhs.search import unrelated_columns
from rkhs.search._relations import _largest_correlations, relations_bytes


def unrelated(X, y, weight=None, categorical=None, n_jobs=None):
    weight = np.ones(len(X)) if weight is None else weight
    categorical = np.zeros(X.shape[1], bool) if categorical is None else categorical
    return unrelated_columns(X, y, weight, categorical, n_jobs)


def noise(n_rows, n_columns, seed=0):
    return np.random.default_rng(seed).normal(size=(n_rows, n_columns))


def test_columns_of_noise_are_found_but_for_the_share_that_chance_takes():
    found = [unrelated(X, X[:, :1]) for X in (noise(500, 51, seed) for seed in range(20))]
    wrong = sum((~one[1:]).sum() for one in found)
    # One in a hundred of a thousand seems related, and two that seem so to each other are not.
    assert wrong <= 10 + 4 * np.sqrt(10)
    assert not any(one[0] for one in found)


@pytest.mark.parametrize(
    "effect",
    [
        lambda x: x,
        lambda x: x**2,
        np.abs,
        lambda x: (x > 1.5).astype(float),
        lambda x: x * np.random.default_rng(1).normal(size=x.shape),  # in the spread alone
    ],
)
def test_effects_on_value_and_spread_are_seen(effect):
    X = noise(4000, 3)
    assert unrelated(X, effect(X[:, :1])).tolist() == [False, True, True]


def test_a_chain_of_columns_joins_the_first_to_the_target():
    X = noise(2000, 6)
    X[:, 1] += X[:, 0]
    X[:, 2] += X[:, 1]
    X[:, 4] = X[:, 3] ** 3  # two that are related to each other alone
    y = X[:, :1] + 0.1 * noise(2000, 1, seed=1)
    assert unrelated(X, y).tolist() == [False, False, False, True, True, True]


def test_categories_count_as_related():
    X = np.random.default_rng(0).integers(0, 5, size=(1000, 2)).astype(float)
    y = noise(1000, 1)
    assert unrelated(X, y, categorical=np.array([True, False])).tolist() == [False, True]


def test_few_rows_or_weights_on_few_of_them_tell_nothing():
    X, y = noise(150, 4), noise(150, 1, seed=1)
    assert not unrelated(X, y).any()
    X, y = noise(2000, 4), noise(2000, 1, seed=1)
    assert unrelated(X, y).all()
    assert not unrelated(X, y, weight=np.where(np.arange(2000) < 100, 1.0, 1e-9)).any()


def test_rows_count_by_their_weight():
    X = noise(2000, 2)
    y = np.where(np.arange(2000)[:, None] < 1000, X[:, :1], noise(2000, 1, seed=1))
    weight = np.where(np.arange(2000) < 1000, 1.0, 1e-6)
    assert unrelated(X, y, weight).tolist() == [False, True]
    assert unrelated(X, y, weight[::-1]).all()


def test_constants_huge_values_and_many_columns_are_borne():
    X = noise(1000, 4)
    y = X[:, :1].copy()
    X[:, 1], X[0, 2], X[:, 3] = 0.0, 1e15, X[:, 3] * 1e-30
    assert unrelated(X, y).tolist() == [False, True, True, True]
    assert not unrelated(noise(300, 2001), noise(300, 1, seed=1)).any()


def test_threads_change_nothing():
    X = noise(9000, 20)
    y = X[:, :1] + X[:, 1:2] ** 2
    columns, weight = np.hstack([X, y]).astype(np.float32), np.ones(len(X))
    one, two = (_largest_correlations(columns, weight, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_a_thousand_columns_take_the_memory_that_is_foreseen():
    X, y = noise(300, 1001).astype(np.float32), noise(300, 1, seed=1)
    y[:, 0] += 3.0 * X[:, 7]
    tracemalloc.start()
    found = unrelated(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert not found[7] and found.mean() > 0.98
    assert peak < relations_bytes(1001, 1)


def test_correlations_are_those_of_bounded_values_and_their_sizes():
    X = noise(5000, 3).astype(np.float32)
    X[:, 1] += X[:, 0] ** 2
    value = X / np.abs(X).mean(axis=0)
    value /= 1 + np.abs(value)
    expected = np.abs(np.corrcoef(np.hstack([value, np.abs(value)]).T))
    expected = expected.reshape(2, 3, 2, 3).max(axis=(0, 2))
    found = _largest_correlations(X, np.ones(5000), None)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_outputs_count_as_columns():
    X = noise(300, 3)
    assert unrelated(X, noise(300, 5, seed=1)).all()
    assert not unrelated(X, noise(300, 1998, seed=1)).any()
