"""Which rows become centres: weights are repetitions, and rare rows are found."""

import numpy as np
import pytest
from scipy import stats

from rkhs.data import RowSource
from rkhs.features import Nystrom
from rkhs.features._base import sample_rows
from rkhs.kernels import Gaussian

SAMPLINGS = ["uniform", "kmeans++", "leverage"]


def clustered(seed):
    """One big cluster, and twelve small ones far from it and from each other."""
    rng = np.random.default_rng(seed)
    angles = 2 * np.pi * np.arange(12) / 12
    middles = 15 * np.column_stack([np.cos(angles), np.sin(angles)])
    small = [middle + 0.3 * rng.normal(size=(8, 2)) for middle in middles]
    return np.vstack([0.2 * rng.normal(size=(500, 2)), *small])


def error(sampling, seed):
    X = clustered(seed)
    Z = Nystrom(40, Gaussian(), sampling, random_state=seed).fit_transform(X)
    return len(X) - np.sum(Z**2)  # trace of what is left


@pytest.mark.parametrize("sampling", ["kmeans++", "leverage"])
def test_careful_centres_have_a_lower_error_on_unbalanced_clusters(sampling):
    # Same data and seed for both: the mean difference is compared with its standard error.
    difference = np.array([error("uniform", s) - error(sampling, s) for s in range(30)])
    assert difference.mean() > 4 * difference.std(ddof=1) / np.sqrt(30)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_single_centre_is_drawn_in_proportion_to_the_weight(sampling):
    X, weight = np.arange(4.0)[:, None] * 100, np.array([1.0, 2.0, 3.0, 14.0])
    counts = np.zeros(4)
    for seed in range(200):
        features = Nystrom(1, Gaussian(), sampling, random_state=seed)
        counts[int(features.fit(X, sample_weight=weight).centers_[0, 0] / 100)] += 1
    if sampling == "leverage":  # the pilot's own row counts half, so only the order is sure
        assert counts[3] > counts[:3].sum()
    else:
        assert stats.chisquare(counts, 200 * weight / weight.sum()).pvalue > 1e-3


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_weights_are_repetitions_for_the_chance_to_be_a_centre(sampling):
    X = np.arange(6.0)[:, None] * 100
    weight = np.array([40, 1, 1, 1, 1, 1])

    def share(rows, sample_weight):
        hits = [
            0.0
            in Nystrom(2, Gaussian(), sampling, random_state=s)
            .fit(rows, None, sample_weight)
            .centers_
            for s in range(100)
        ]
        return np.mean(hits)

    weighted, repeated = share(X, weight), share(np.repeat(X, weight, axis=0), None)
    # Two shares of 100 draws: a standard error of at most 0.07.
    assert abs(weighted - repeated) < 0.28


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_common_factor_of_all_weights_changes_nothing(sampling):
    X, weight = clustered(0), np.random.default_rng(0).uniform(0.5, 2.0, 596)
    first, second = (
        Nystrom(10, Gaussian(), sampling, random_state=1).fit(X, None, w).centers_
        for w in (weight, 64 * weight)
    )
    np.testing.assert_array_equal(first, second)


def test_few_rows_are_all_in_the_sample():
    X, weight = np.arange(12.0).reshape(6, 2), np.arange(6.0)
    rows, kept = sample_rows(RowSource(X), weight, seed=0)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(kept, weight)


def test_many_rows_are_sampled_in_proportion_to_their_weight():
    X = np.arange(5000.0)[:, None]
    weight = np.where(X[:, 0] < 100, 49.0, 1.0)  # half the total for the first hundred
    weight[200:300] = 0
    rows, kept = sample_rows(RowSource(X), weight, seed=0)
    assert len(rows) == 1000
    np.testing.assert_array_equal(kept, np.ones(1000))
    assert (rows < 100).mean() == pytest.approx(4900 / weight.sum(), abs=0.005)
    assert not ((rows >= 200) & (rows < 300)).any()


def test_a_sample_of_weighted_rows_is_that_of_repetitions():
    X = np.arange(3000.0)[:, None]
    weight = np.random.default_rng(0).integers(0, 4, 3000)
    weighted, _ = sample_rows(RowSource(X), weight.astype(float), seed=2)
    repeated = np.repeat(X, weight, axis=0)
    expected, _ = sample_rows(RowSource(repeated), np.ones(len(repeated)), seed=2)
    np.testing.assert_array_equal(weighted, expected)
