"""Threads that share out a stage's units of work among themselves."""

import threading

import numpy as np
import pytest
from numba import njit

from rkhs.compute import together
from rkhs.compute._team import claim, finish, numbers16, numbers32, wait


@njit(nogil=True)
def neighbour_sums(thread, n_threads, claims, done, values):
    """Each stage adds to a value what the one before left in its neighbour."""
    n_units = claims.shape[1]
    for stage in range(claims.shape[0]):
        part = claim(claims, stage, thread)
        if part >= 0 and stage > 0:
            wait(done, stage - 1, n_units)
        while part >= 0:
            values[stage + 1, part] = values[stage, part] + values[stage, (part + 1) % n_units]
            finish(done, stage)
            part = claim(claims, stage, thread)


@njit
def total(address, length, wide):
    return numbers32(address, length).sum() if wide else numbers16(address, length).sum()


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_a_stage_sees_all_of_the_stage_before(n_jobs):
    claims, done = np.zeros((1000, 3), np.int64), np.zeros(1000, np.int64)
    values = np.zeros((1001, 3))
    values[0] = 1e-300, 2e-300, 4e-300
    expected = values.copy()
    for stage in range(1000):
        expected[stage + 1] = expected[stage] + np.roll(expected[stage], -1)
    together(lambda *who: neighbour_sums(*who, claims, done, values), n_jobs)
    np.testing.assert_array_equal(values, expected)
    assert (done == 3).all()


def test_helpers_that_never_come_hold_up_nobody_and_errors_are_raised():
    busy, begun = threading.Event(), threading.Event()

    def occupied(thread, n_threads):
        begun.set()
        assert busy.wait(10)

    holders = [threading.Thread(target=together, args=(occupied, 3)) for _ in range(2)]
    for holder in holders:
        holder.start()
    assert begun.wait(10)
    calls = []
    together(lambda *who: calls.append(threading.get_ident()) or busy.set(), 3)
    assert threading.get_ident() in calls
    for holder in holders:
        holder.join()
    with pytest.raises(ZeroDivisionError):
        together(lambda *who: 1 // 0, 2)


def test_no_more_threads_come_than_there_are_parts():
    calls = []
    together(lambda *who: calls.append(who), 8, most=2)
    assert (0, 2) in calls and set(calls) <= {(0, 2), (1, 2)}


@pytest.mark.parametrize("kind", [np.uint16, np.uint32])
def test_numbers_are_read_where_they_are(kind):
    numbers = np.arange(70, dtype=kind)[7:]
    assert total(numbers.ctypes.data, len(numbers), kind is np.uint32) == numbers.sum()
