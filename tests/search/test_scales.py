"""Learnt length scales tell what matters from what does not."""

import numpy as np
import pytest

from rkhs.data import RowSource
from rkhs.kernels import Gaussian, Laplacian
from rkhs.search import LeaveOneOut, learn_scales, refine_scales
from rkhs.search._sample import distinct_rows
from rkhs.search._scales import _worth


def friedman(n_rows, n_noise, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n_rows, 5 + n_noise))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    y += 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(size=n_rows)
    return X, y[:, None]


@pytest.mark.parametrize("Kernel", [Laplacian, Gaussian])
def test_columns_of_noise_count_less_than_any_other(Kernel):
    X, y = friedman(2000, 10)
    found = learn_scales(Kernel(), X, y)
    assert found.contribution[5:].max() < 0.5 * found.contribution[:5].min()
    assert found.error < 0.06


@pytest.mark.parametrize("n_rows", [400, 2000])  # a sample of all rows, and samples of some
@pytest.mark.parametrize("Kernel", [Laplacian, Gaussian])
def test_no_column_that_matters_is_left_out(Kernel, n_rows):
    X, y = friedman(n_rows, 10)
    assert np.isfinite(learn_scales(Kernel(), X, y).length_scale[:5]).all()


def test_a_column_that_hardly_counts_stays_if_the_error_says_so():
    X, y = friedman(400, 0, seed=1)
    found = learn_scales(Gaussian(), X, y)
    # A linear effect has a long scale: little of the distance, and much of the target.
    assert found.contribution[4] < 0.01 * found.contribution.sum()
    assert np.isfinite(found.length_scale[4])


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_left_out_where_nothing_was_learnt(seed):
    X = np.random.default_rng(seed).uniform(size=(20_000, 3))
    y = np.sin(40 * X[:, :1]) * np.sin(40 * X[:, 1:2])  # details that 600 rows can't show
    found = learn_scales(Laplacian(), X, y)
    assert found.error > 0.9
    assert np.isfinite(found.length_scale).all()


@pytest.mark.parametrize("Kernel", [Laplacian, Gaussian])
def test_columns_of_noise_are_left_out_and_others_are_not(Kernel):
    X, y = friedman(2000, 50)
    found = learn_scales(Kernel(), X, y)
    used = np.isfinite(found.length_scale)
    assert used[:5].all() and used[5:].sum() <= 30
    assert found.contribution[5:].sum() < 0.2 * found.contribution.sum()
    without = learn_scales(Kernel(), X[:, :5], y)
    assert found.error < 1.1 * without.error


def test_a_column_that_counts_little_is_worth_what_the_error_rises_by_without_it():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(600, 6))
    y = np.sin(6 * X[:, :1]) + X[:, 1:2] + 0.1 * X[:, 2:3] + 0.1 * rng.normal(size=(600, 1))
    loss = LeaveOneOut(Laplacian(), np.zeros(6, bool), len(X))
    parameters = np.log([0.5, 0.5, 200.0, 200.0, 300.0, 400.0, 0.1])
    data = X, (y - y.mean()) / y.std(), np.ones(len(X))
    error, slope = loss(parameters, *data)
    worth = _worth(np.exp(-parameters[:-1]), slope)
    assert worth[:2].min() > worth[2] > worth[3:].max()  # two that count, a weak one, and noise
    for column in (3, 4, 5):
        without = parameters.copy()
        without[column] = np.inf
        rise = loss(without, *data, with_gradient=False)[0] - error
        assert worth[column] == pytest.approx(rise, rel=0.25)


def test_units_and_shifts_of_columns_make_no_difference():
    X, y = friedman(200, 0)
    unit = np.array([1e-6, 1.0, 1e3, 50.0, 1e8])
    plain = learn_scales(Laplacian(), X, y)
    moved = learn_scales(Laplacian(), X * unit + 3 * unit, 7 * y + 1e4)
    np.testing.assert_allclose(moved.length_scale / unit, plain.length_scale, rtol=1e-2)


def test_threads_change_no_bit():
    X, y = friedman(1500, 0)
    one, two = (learn_scales(Laplacian(), X, y, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.length_scale, two.length_scale)


def test_what_cannot_be_learnt_is_left_at_the_start():
    X = np.ones((30, 2))
    assert np.isinf(learn_scales(Laplacian(), X, np.arange(30.0)[:, None]).length_scale).all()
    X = np.arange(60.0).reshape(30, 2)
    assert np.isfinite(learn_scales(Laplacian(), X, np.ones((30, 1))).length_scale).all()
    X[:, 1] = 5.0
    found = learn_scales(Laplacian(), X, np.sin(X[:, :1]))
    assert np.isfinite(found.length_scale[0])
    assert np.isinf(found.length_scale[1])


def test_weights_are_repetitions_in_any_order():
    X, y = friedman(60, 0)
    weight = np.random.default_rng(1).integers(1, 4, len(X))
    rows = np.random.default_rng(2).permutation(np.repeat(np.arange(len(X)), weight))
    once = distinct_rows(RowSource(X), y, weight.astype(float), seed=3)
    many = distinct_rows(RowSource(X[rows]), y[rows], np.ones(len(rows)), seed=3)
    np.testing.assert_array_equal(X[once.rows], X[rows][many.rows])
    np.testing.assert_array_equal(once.weight, many.weight)
    np.testing.assert_allclose(once.target, many.target)


def test_few_of_many_columns_are_found_and_many_that_count_are_kept():
    X = np.random.default_rng(0).normal(size=(1000, 240))
    y = np.sin(2 * X[:, :1]) + X[:, 1:2] * X[:, 2:3]
    found = learn_scales(Laplacian(), X, y)
    assert set(np.argsort(-found.contribution)[:3]) == {0, 1, 2}
    assert np.isfinite(found.length_scale).sum() <= 75
    all_count = learn_scales(Laplacian(), X[:, :160], X[:, :160].sum(axis=1, keepdims=True))
    assert np.isfinite(all_count.length_scale).sum() > 120


def test_near_rows_tell_which_column_has_details():
    X = np.random.default_rng(0).uniform(size=(20_000, 3))
    y = np.sin(200 * X[:, :1])  # thirty waves
    none = np.array([False] * 3)
    start = Laplacian(np.full(3, 0.5))
    found = refine_scales(start, X, y, np.ones(len(X)), none)
    assert found[0] < 0.2 * found[1:].min()
    few = refine_scales(start, X[:400], y[:400], np.ones(400), none)
    np.testing.assert_array_equal(few, start.length_scale)  # no more than a sample


def test_refined_scales_keep_units_and_columns_that_do_not_count():
    X, y = friedman(2000, 1)
    start = np.array([1.0, 1.0, 1.0, 1.0, np.inf, 2.0])
    none, weight = np.zeros(6, bool), np.ones(len(X))
    plain = refine_scales(Laplacian(start), X, y, weight, none)
    assert np.isinf(plain[4])
    unit = np.array([1e-6, 1.0, 1e3, 50.0, 1e8, 1.0])
    moved = refine_scales(Laplacian(start * unit), X * unit + unit, 7 * y, weight, none)
    np.testing.assert_allclose(moved / unit, plain, rtol=1e-2)


def test_refined_scales_of_codes_weights_and_outputs_do_not_depend_on_threads():
    X, y = friedman(1500, 0)
    code = np.random.default_rng(1).integers(0, 3, len(X))
    X = np.column_stack([X, code, np.random.default_rng(2).integers(0, 3, len(X))])
    y = np.hstack([y + 5.0 * (code == 1)[:, None], y])
    categorical = np.arange(7) > 4
    weight = np.random.default_rng(3).integers(1, 4, len(X)).astype(float)
    start = Laplacian(np.ones(7))
    one, two = (refine_scales(start, X, y, weight, categorical, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one, two)
    assert one[5] < 0.5 * one[6]  # codes that count, and codes that do not
    late = refine_scales(start, X, y, weight, categorical, deadline=0.0)
    np.testing.assert_array_equal(late, start.length_scale)
