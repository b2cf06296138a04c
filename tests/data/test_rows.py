"""Rows come out dense, whatever they are kept in; keys depend on what rows hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse, stats

from rkhs.data import RowSource, row_keys

X = np.arange(30.0).reshape(10, 3) % 7


def sources(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, X)
    return {
        "array": X,
        "columns first": np.asfortranarray(X),
        "memory map": np.load(path, mmap_mode="r"),
        "csr": sparse.csr_array(X),
        "csc": sparse.csc_array(X),
        "coo": sparse.coo_array(X),
        "csr matrix": sparse.csr_matrix(X),
    }


KINDS = ["array", "columns first", "memory map", "csr", "csc", "coo", "csr matrix"]
CHOICES = [
    slice(None),
    slice(2, 5),
    slice(8, 20),
    slice(0, 0),
    np.array([7, 0, 7]),
    np.array([], int),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_blocks_are_the_dense_rows(tmp_path, kind, choice):
    source = RowSource(sources(tmp_path)[kind])
    assert source.shape == (10, 3)
    assert len(source) == 10
    block = source[choice]
    assert type(block) in (np.ndarray, np.memmap)
    np.testing.assert_array_equal(block, X[choice])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("choice", [slice(None), slice(1, 3), np.array([2, 0])], ids=str)
def test_a_selection_of_rows_comes_in_its_order(tmp_path, kind, choice):
    rows = [5, 1, 5, 9]
    source = RowSource(sources(tmp_path)[kind], rows=rows)
    assert source.shape == (4, 3)
    np.testing.assert_array_equal(source[choice], X[rows][choice])


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint16])
def test_types_are_kept(dtype):
    assert RowSource(X.astype(dtype))[0:2].dtype == dtype


def test_a_block_of_an_array_is_not_a_copy():
    assert np.shares_memory(RowSource(X)[2:4], X)


def test_keys_depend_on_what_rows_hold_and_on_nothing_else():
    rows = np.random.default_rng(0).normal(size=(200, 4))
    keys = row_keys(RowSource(rows), 3)
    assert keys.dtype == np.uint64
    order = np.random.default_rng(1).permutation(200)
    np.testing.assert_array_equal(row_keys(RowSource(rows[order]), 3), keys[order])
    np.testing.assert_array_equal(row_keys(RowSource(rows, rows=order), 3), keys[order])
    np.testing.assert_array_equal(row_keys(RowSource(sparse.csr_array(rows)), 3), keys)
    assert len(np.unique(keys)) == 200


def test_keys_of_many_rows_do_not_depend_on_blocks():
    rows = np.random.default_rng(0).integers(0, 50, size=(70_000, 2)).astype(np.float32)
    keys = row_keys(RowSource(rows), 0)
    different = len(np.unique(rows, axis=0))
    assert len(np.unique(keys)) == different  # equal rows share a key, others do not
    np.testing.assert_array_equal(row_keys(RowSource(rows[-10:]), 0), keys[-10:])


@given(arrays(np.float64, (2, 3), elements=st.floats(-3, 3)))
def test_rows_have_equal_keys_exactly_if_they_are_equal(rows):
    first, second = row_keys(RowSource(rows), 5)
    assert (first == second) == np.array_equal(rows[0], rows[1])


def test_zero_has_no_sign():
    first, second = row_keys(RowSource(np.array([[0.0, 1.0], [-0.0, 1.0]])), 5)
    assert first == second


def test_numbers_of_another_type_have_the_same_keys():
    whole = np.arange(12).reshape(4, 3)
    expected = row_keys(RowSource(whole.astype(np.float64)), 1)
    for dtype in (np.float32, np.int64, np.uint8):
        np.testing.assert_array_equal(row_keys(RowSource(whole.astype(dtype)), 1), expected)


@pytest.mark.parametrize("kind", ["normal", "bits", "small integers"])
def test_keys_are_uniform(kind):
    rng = np.random.default_rng(2)
    rows = {
        "normal": rng.normal(size=(20_000, 3)),
        "bits": (np.arange(2**14)[:, None] >> np.arange(14)) & 1,
        "small integers": np.stack(np.meshgrid(*[np.arange(25)] * 3), axis=-1).reshape(-1, 3),
    }[kind].astype(np.float64)
    keys = row_keys(RowSource(rows), 9)
    assert stats.kstest(keys / 2.0**64, "uniform").pvalue > 1e-3


def test_keys_change_with_the_seed_for_every_row():
    # A row that kept its key would always come first, or always last.
    rows = np.vstack([np.zeros((1, 4)), np.eye(4), np.ones((1, 4))])
    keys = np.array([row_keys(RowSource(rows), seed) for seed in range(20)])
    assert all(len(np.unique(column)) == 20 for column in keys.T)


def test_the_order_of_columns_counts():
    first, second = row_keys(RowSource(np.array([[1.0, 2.0], [2.0, 1.0]])), 0)
    assert first != second
