"""What values of a column are worth."""

import numpy as np
import pytest

from rkhs.data import Preparation, target_means

rng = np.random.default_rng(0)
N_ROWS = 2000
CODE = rng.integers(0, 8, N_ROWS).astype(float)
EFFECT = np.array([3.0, -1.0, 2.0, -3.0, 0.5, -2.0, 2.5, -0.5])
TARGET = EFFECT[CODE.astype(int)] + rng.normal(size=N_ROWS)
NUMBERS, CATEGORIES = np.array([False]), np.array([True])


def means_of(column, target, weight=None, categorical=NUMBERS):
    weight = np.ones(len(column)) if weight is None else weight
    return target_means(column[:, None], target.reshape(len(column), -1), weight, categorical)


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
    assert not means_of(rng.integers(0, n_values, N_ROWS).astype(float), noise, None, CATEGORIES)


def test_a_mean_of_few_rows_would_tell_a_row_its_own_target():
    code = (np.arange(N_ROWS) // 20).astype(float)
    target = rng.normal(size=100).repeat(20) + 0.1 * rng.normal(size=N_ROWS)
    assert not means_of(code, target, None, CATEGORIES)
    assert means_of(code // 2, target, None, CATEGORIES)


def test_numbers_with_a_smooth_effect_are_no_codes():
    age = rng.integers(20, 80, N_ROWS).astype(float)
    effect = np.sin(age / 10) + 0.3 * rng.normal(size=N_ROWS)
    assert not means_of(age, effect)
    assert means_of(age, effect, None, CATEGORIES)
    assert not means_of(CODE + 0.5, TARGET)  # not whole
    assert not means_of(np.arange(N_ROWS) % 101.0, np.arange(N_ROWS) % 101.0 % 2)  # too many


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


def test_gaps_and_new_categories_are_passed_over():
    holes = CODE.copy()
    holes[::5] = np.nan
    (found,) = means_of(holes, TARGET)
    (known,) = means_of(CODE[~np.isnan(holes)], TARGET[~np.isnan(holes)])
    np.testing.assert_allclose(np.abs(found.means), np.abs(known.means), rtol=0.01)
    codes = CODE.copy()
    codes[::5] = -1.0
    assert means_of(codes, TARGET, None, CATEGORIES)[0].values.min() == 0


def test_prepared_rows_have_the_means_as_a_further_column():
    table = np.column_stack([rng.normal(size=N_ROWS), CODE, CODE[::-1]])
    numbers = np.zeros(3, bool)
    target = (TARGET + 2.0 * TARGET[::-1])[:, None]
    worth = target_means(table, target, np.ones(N_ROWS), numbers)
    preparation = Preparation().fit_rows(table, np.ones(N_ROWS), numbers, numbers, worth)
    assert preparation.origin_.tolist() == [0, 1, 2, 1, 2]
    out = preparation.apply(table)
    for place, one in zip((3, 4), worth, strict=True):
        np.testing.assert_allclose(out[:, place], one.means[table[:, one.column].astype(int)], 1e-6)
    new = preparation.apply(np.array([[0.0, 99.0, np.nan], [0.0, 3.5, -1.0]]))
    np.testing.assert_array_equal(new[:, 3:], 0.0)
