"""Every law has the distribution it is named after, however its points are spread."""

import numpy as np
import pytest
from scipy import stats
from scipy.stats import qmc

from rkhs.compute import SAMPLINGS, IndependentDraw, OrthogonalDraw, QuasiDraw, uniform

COLUMNS = 6
LAWS = {
    "normal": (lambda draw: draw.normal(COLUMNS), stats.norm()),
    "cauchy": (lambda draw: draw.cauchy(COLUMNS), stats.cauchy()),
    "laplace": (lambda draw: draw.laplace(COLUMNS), stats.laplace()),
    "gamma below 1": (lambda draw: draw.gamma(0.4), stats.gamma(0.4)),
    "gamma above 1": (lambda draw: draw.gamma(3.5), stats.gamma(3.5)),
    "student, 1 degree": (lambda draw: draw.student(COLUMNS, 1.0), stats.t(1)),
    "student, 5 degrees": (lambda draw: draw.student(COLUMNS, 5.0), stats.t(5)),
}


def sample(law, sampling, n_blocks=200, seed=5):
    """Many blocks; for quasi-random points many seeds, since one seed is one shift."""
    addresses = [(seed + b, 0) if sampling == "qmc" else (seed, b) for b in range(n_blocks)]
    return np.vstack([law(SAMPLINGS[sampling](*address, 512)) for address in addresses])


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("name", LAWS)
def test_each_number_follows_its_law(name, sampling):
    # 1e5 numbers a column see a scale that is wrong by 5 %. Quasi-random points are more
    # even than independent ones, so their p-values are only larger.
    law, distribution = LAWS[name]
    for column in sample(law, sampling).T:
        assert stats.kstest(column, distribution.cdf).pvalue > 1e-3


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("freedom", [1.0, 3.0])
def test_student_rows_share_one_divisor(sampling, freedom):
    # Independent t columns would give another law of the length.
    rows = sample(lambda draw: draw.student(COLUMNS, freedom), sampling)
    squares = (rows**2).sum(axis=1) / COLUMNS
    assert stats.kstest(squares, stats.f(COLUMNS, freedom).cdf).pvalue > 1e-3


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_normal_rows_have_the_lengths_of_normal_vectors(sampling):
    lengths = np.linalg.norm(sample(lambda draw: draw.normal(COLUMNS), sampling), axis=1)
    assert stats.kstest(lengths, stats.chi(COLUMNS).cdf).pvalue > 1e-3


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_successive_requests_are_uncorrelated(sampling):
    pairs = []
    for seed in range(20):
        draw = SAMPLINGS[sampling](seed, 0, 512)
        pairs.append(np.hstack([draw.normal(1), draw.normal(1)]))
    correlation = np.corrcoef(np.vstack(pairs).T)[0, 1]
    assert abs(correlation) < 4 / np.sqrt(20 * 512)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_an_address_gives_the_same_bits_again_and_others_do_not(sampling):
    def draw(seed, index):
        return SAMPLINGS[sampling](seed, index, 512).student(COLUMNS, 3.0)

    np.testing.assert_array_equal(draw(1, 2), draw(1, 2))
    assert not np.isin(draw(1, 2), draw(1, 3)).any()
    assert not np.isin(draw(1, 2), draw(2, 2)).any()


@pytest.mark.parametrize(("n_points", "n_columns"), [(512, 7), (10, 64), (20, 20)])
def test_orthogonal_rows_are_orthogonal_in_groups(n_points, n_columns):
    rows = OrthogonalDraw(3, 1, n_points).normal(n_columns)
    assert rows.shape == (n_points, n_columns)
    group = min(n_points, n_columns)
    for start in range(0, n_points, group):
        part = rows[start : start + group]
        part = part / np.linalg.norm(part, axis=1, keepdims=True)
        np.testing.assert_allclose(part @ part.T, np.eye(len(part)), atol=1e-12)


def test_orthogonal_directions_are_uniform_over_the_first_row_of_a_group():
    # Without the sign of the QR factor's diagonal, first rows point one way.
    first = np.vstack([OrthogonalDraw(3, i, 4).normal(4)[:1] for i in range(4000)])
    for column in first.T:
        assert stats.kstest(column, "norm").pvalue > 1e-3


def test_independent_rows_are_independent_of_each_other():
    points = np.vstack([IndependentDraw(9, i, 2).normal(COLUMNS).ravel() for i in range(4000)])
    correlation = np.corrcoef(points.T) - np.eye(2 * COLUMNS)
    assert np.abs(correlation).max() < 4.5 / np.sqrt(4000)


def test_quasi_random_blocks_continue_one_shifted_sobol_sequence():
    n_points, n_columns = 64, 5
    blocks = np.vstack([QuasiDraw(4, i, n_points).uniform(n_columns) for i in range(4)])
    sobol = qmc.Sobol(n_columns, scramble=False, bits=30).random(4 * n_points)
    shift = uniform(4, 1, 0, (n_columns,))
    np.testing.assert_allclose(blocks, (sobol + shift) % 1.0, atol=1e-12)


def test_quasi_random_requests_use_columns_of_one_sequence():
    whole = QuasiDraw(4, 2, 64).uniform(5)
    draw = QuasiDraw(4, 2, 64)
    np.testing.assert_array_equal(np.hstack([draw.uniform(3), draw.uniform(2)]), whole)


def test_too_many_columns_for_the_sobol_sequence_are_refused():
    with pytest.raises(ValueError, match=r'sampling="qmc" needs at most 21201 columns'):
        QuasiDraw(0, 0, 512).uniform(21_202)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_numbers_stay_inside_the_open_interval(sampling):
    u = np.vstack([SAMPLINGS[sampling](seed, 0, 512).uniform(3) for seed in range(50)])
    assert (u > 0).all()
    assert (u < 1).all()
