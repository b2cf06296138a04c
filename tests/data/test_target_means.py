"""What values of a column are worth."""

import numpy as np
import pytest

from rkhs.data import Preparation, target_means

rng = np.random.default_rng(0)
N_ROWS = 2000
CODE = rng.integers(0, 8, N_ROWS).astype(float)
EFFECT = np.array([3.0, -1.0, 2.0, -3.0, 0.5, -2.0, 2.5, -0.5])
TARGET = EFFECT[CODE.astype(int)] + rng.normal(size=N_ROWS)


def means_of(column, target, weight=None):
    table = np.column_stack([rng.integers(0, 3, len(column)), column])
    weight = np.ones(len(column)) if weight is None else weight
    found = target_means(table, target.reshape(len(column), -1), weight, np.array([False, True]))
    assert [one.column for one in found] in ([], [1])
    return found


def test_means_are_drawn_to_the_middle_as_a_random_effect_would_be():
    (found,) = means_of(CODE, TARGET)
    groups = [TARGET[value == CODE] - TARGET.mean() for value in found.values]
    count = np.array([len(group) for group in groups])
    raw = np.array([group.mean() for group in groups])
    within = sum(((group - group.mean()) ** 2).sum() for group in groups) / (N_ROWS - 8)
    # The usual moment estimate of the variance between groups of different size.
    between = (count @ raw**2 - 7 * within) / (N_ROWS - (count**2).sum() / N_ROWS)
    expected = raw * count / (count + within / between)
    expected /= np.sqrt(count @ expected**2 / N_ROWS)
    np.testing.assert_array_equal(found.values, np.arange(8))
    np.testing.assert_allclose(found.means * np.sign(found.means @ expected), expected, rtol=1e-10)


def test_rare_values_are_drawn_further():
    code = np.where(np.arange(N_ROWS) < 4, 8.0, CODE)
    target = np.where(np.arange(N_ROWS) < 4, 3.0, TARGET + 5.0 * rng.normal(size=N_ROWS))
    values, means = means_of(code, target)[0][1:]
    assert values[-1] == 8 and abs(means[0]) > 1.5 * abs(means[-1]) > 0


@pytest.mark.parametrize("n_values", [4, 70])
def test_noise_is_worth_nothing(n_values):
    noise = np.random.default_rng(1).normal(size=N_ROWS)
    assert not means_of(rng.integers(0, n_values, N_ROWS).astype(float), noise)


def test_a_mean_of_few_rows_would_tell_a_row_its_own_target():
    code = (np.arange(N_ROWS) // 20).astype(float)
    target = rng.normal(size=100).repeat(20) + 0.1 * rng.normal(size=N_ROWS)
    assert not means_of(code, target)
    assert means_of(code // 2, target)


def test_weights_are_repetitions():
    weight = rng.integers(1, 4, N_ROWS)
    (once,) = means_of(CODE, TARGET, weight.astype(float))
    (many,) = means_of(np.repeat(CODE, weight), np.repeat(TARGET, weight))
    np.testing.assert_allclose(once.means, many.means, rtol=1e-9)


def test_of_several_targets_the_direction_counts_in_which_means_differ_most():
    one_hot = np.stack([TARGET, 0.1 * rng.normal(size=N_ROWS)], axis=1)
    turned = one_hot @ np.array([[0.6, 0.8], [-0.8, 0.6]])
    (alone,), (both,) = means_of(CODE, TARGET), means_of(CODE, turned)
    assert abs(np.corrcoef(alone.means, both.means)[0, 1]) > 0.9999


def test_codes_below_zero_are_of_no_category():
    codes = np.where(np.arange(N_ROWS) % 5, CODE, -1.0)
    (found,) = means_of(codes, TARGET)
    np.testing.assert_array_equal(found.values, np.arange(8))
    (known,) = means_of(CODE, TARGET)
    assert abs(np.corrcoef(found.means, known.means)[0, 1]) > 0.99


def test_prepared_rows_have_the_means_as_a_further_column():
    table = np.column_stack([rng.normal(size=N_ROWS), CODE, CODE[::-1]])
    categorical, gaps = np.array([False, True, True]), np.zeros(3, bool)
    target = (TARGET + 2.0 * TARGET[::-1])[:, None]
    worth = target_means(table, target, np.ones(N_ROWS), categorical)
    preparation = Preparation().fit_rows(table, np.ones(N_ROWS), categorical, gaps, worth)
    assert preparation.origin_.tolist() == [0, 1, 2, 1, 2]
    out = preparation.apply(table)
    for place, one in zip((3, 4), worth, strict=True):
        np.testing.assert_allclose(out[:, place], one.means[table[:, one.column].astype(int)], 1e-6)
    new = preparation.apply(np.array([[0.0, 99.0, -1.0], [0.0, 3.5, 8.0]]))
    np.testing.assert_array_equal(new[:, 3:], 0.0)
