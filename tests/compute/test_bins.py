"""Tables of keys: consecutive numbers, none confused."""

import numpy as np
import pytest

from rkhs.compute import BinTable

rng = np.random.default_rng(0)


def numbered(keys):
    """Numbers in order of first appearance, by a dictionary."""
    known = {}
    return np.array([known.setdefault(int(key), len(known)) for key in keys])


@pytest.mark.parametrize("n_different", [1, 10, 3000, 40_000])
def test_numbers_come_in_order_of_first_appearance(n_different):
    keys = rng.integers(0, 2**63, n_different).astype(np.uint64)[
        rng.integers(0, n_different, 50_000)
    ]
    table = BinTable()
    parts = [table.add(part) for part in np.array_split(keys, 3)]
    expected = numbered(keys)
    np.testing.assert_array_equal(np.concatenate(parts), expected)
    assert len(table) == expected.max() + 1
    np.testing.assert_array_equal(table.keys[expected], keys)


def test_finding_knows_the_known_and_nothing_else():
    keys = np.arange(0, 200_000, 2, dtype=np.uint64) * np.uint64(0x1000_0000_0001)
    table = BinTable()
    table.add(keys)
    again = BinTable(table.keys)
    for t in (table, again):
        np.testing.assert_array_equal(t.find(keys), np.arange(len(keys)))
        assert (t.find(keys + np.uint64(1)) == len(keys)).all()


def test_keys_of_a_table_can_be_added_to():
    table = BinTable(np.array([5, 3], np.uint64))
    assert table.add(np.array([3, 9, 5, 9], np.uint64)).tolist() == [1, 2, 0, 2]
    table.trim()
    assert table.keys.tolist() == [5, 3, 9]


def test_keys_that_share_a_slot_are_told_apart():
    # The slot is the top of a product: keys that differ by multiples of 2^52 crowd together.
    keys = (np.arange(4000, dtype=np.uint64) << np.uint64(52)) + np.uint64(7)
    table = BinTable()
    assert len(np.unique(table.add(keys))) == len(np.unique(keys))


def test_an_empty_table():
    table = BinTable()
    assert len(table.add(np.empty(0, np.uint64))) == 0
    assert table.find(np.array([1], np.uint64)).tolist() == [0]
