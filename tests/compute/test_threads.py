"""Tiles on threads: in order, bounded, with the same bits for any number of threads."""

import os
import threading
import time

import numpy as np
import pytest
import threadpoolctl
from hypothesis import given
from hypothesis import strategies as st

from rkhs.compute import (
    core_count,
    run_tiles,
    slices,
    sum_tiles,
    tile_map,
    together,
)

CORES = core_count(None)


def blas_threads():
    return [
        pool["num_threads"]
        for pool in threadpoolctl.threadpool_info()
        if pool["user_api"] == "blas"
    ]


@given(total=st.integers(0, 2000), size=st.integers(1, 700))
def test_slices_cover_the_range_once_in_order(total, size):
    parts = slices(total, size)
    assert [i for part in parts for i in range(part.start, part.stop)] == list(range(total))
    assert all(0 < part.stop - part.start <= size for part in parts)


def test_cores_are_counted_like_joblib_does():
    assert 1 <= CORES <= os.cpu_count()
    assert core_count(-1) == CORES
    assert core_count(-2) == max(1, CORES - 1)
    assert core_count(-1000) == 1
    assert core_count(3) == 3


def test_zero_jobs_are_refused():
    with pytest.raises(ValueError, match="n_jobs=0 has no meaning"):
        core_count(0)


@pytest.mark.parametrize("n_jobs", [1, 2, 3, None])
def test_results_come_in_order(n_jobs):
    def slow_at_first(i):
        time.sleep(0.002 if i % 3 == 0 else 0)
        return i

    assert list(tile_map(slow_at_first, range(20), n_jobs)) == list(range(20))


def test_no_tiles_give_no_results():
    assert list(tile_map(lambda i: i, [], 2)) == []


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_products_have_the_same_bits_for_any_number_of_threads(n_jobs):
    A = np.random.default_rng(0).normal(size=(700, 300)).astype(np.float32)

    def total(jobs):
        return sum(tile_map(lambda rows: A[rows].T @ A[rows], slices(700, 128), jobs))

    np.testing.assert_array_equal(total(n_jobs), total(1))


@pytest.mark.parametrize("n_jobs", [2, 3])
@pytest.mark.parametrize("n_tiles", [0, 1, 5, 40])
def test_sums_over_tiles_have_the_same_bits_for_any_number_of_threads(n_tiles, n_jobs):
    values = np.random.default_rng(0).normal(size=(n_tiles, 3)).astype(np.float32)

    def slow_at_first(i):
        time.sleep(0.005 if i % 4 == 0 else 0)
        return values[i]

    one, several = (
        sum_tiles(slow_at_first, range(n_tiles), np.zeros(3), jobs) for jobs in (1, n_jobs)
    )
    np.testing.assert_array_equal(one, several)
    np.testing.assert_allclose(one, values.sum(axis=0, dtype=np.float64), atol=1e-12)


def test_work_without_the_caller_stays_on_the_threads_of_the_pool():
    seen = []
    run_tiles(lambda _: seen.append(threading.get_ident()), range(8), 2, with_caller=False)
    assert len(seen) == 8
    assert threading.get_ident() not in seen
    with pytest.raises(ZeroDivisionError):
        run_tiles(lambda i: 1 // (i - 5), range(10), 2, with_caller=False)


def test_an_interrupt_ends_work_that_the_caller_waits_for(monkeypatch):
    done = []

    def interrupted(helpers):
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr("rkhs.compute._threads.wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_tiles(lambda i: (time.sleep(0.01), done.append(i)), range(200), 2, with_caller=False)
    ended = len(done)
    assert ended < 20
    time.sleep(0.05)
    assert len(done) == ended


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_blas_has_one_thread_inside_and_its_own_number_after(n_jobs):
    before = blas_threads()
    inside = list(tile_map(lambda _: blas_threads(), range(4), n_jobs))
    assert all(threads == 1 for tile in inside for threads in tile)
    assert blas_threads() == before


def test_blas_threads_return_when_a_tile_fails():
    before = blas_threads()
    with pytest.raises(ZeroDivisionError):
        list(tile_map(lambda i: 1 // (i - 5), range(10), 2))
    assert blas_threads() == before


def test_blas_threads_return_when_the_reader_stops_early():
    before = blas_threads()
    results = tile_map(lambda i: i, range(100), 2)
    next(results)
    results.close()
    assert blas_threads() == before


def test_nested_maps_release_blas_only_at_the_end():
    before = blas_threads()

    def outer(i):
        list(tile_map(lambda j: j, range(3), 1))
        return blas_threads()

    for threads in tile_map(outer, range(6), 2):
        assert set(threads) == {1}
    assert blas_threads() == before


def test_few_results_wait_for_a_slow_reader():
    lock, done = threading.Lock(), []

    def work(i):
        with lock:
            done.append(i)
        return i

    largest = 0
    for i in tile_map(work, range(60), 2):
        time.sleep(0.001)
        largest = max(largest, len(done) - i)
    assert largest <= 4 * (2 * 2 + 1)  # of 60; two runs of four tiles a thread, and one more


def test_threads_run_at_the_same_time():
    barrier = threading.Barrier(2, timeout=10)
    # Each call waits for another one: a single thread would time out.
    list(tile_map(lambda _: barrier.wait(), range(4), 2))


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
@pytest.mark.parametrize("n_tiles", [0, 1, 20])
def test_every_tile_is_run_once(n_jobs, n_tiles):
    counts = np.zeros(n_tiles, int)

    def count(i):
        time.sleep(0.001 if i % 3 == 0 else 0)
        counts[i] += 1

    run_tiles(count, range(n_tiles), n_jobs)
    np.testing.assert_array_equal(counts, 1)


def test_tiles_run_on_the_calling_thread_and_another_at_the_same_time():
    barrier, threads = threading.Barrier(2, timeout=10), set()

    def meet(_):
        threads.add(threading.get_ident())
        barrier.wait()

    run_tiles(meet, range(4), 2)
    assert len(threads) == 2
    assert threading.get_ident() in threads


def test_a_tile_that_fails_ends_the_run():
    before, done = blas_threads(), []

    def fail_early(i):
        if i == 3:
            raise ZeroDivisionError
        time.sleep(0.001)
        done.append(i)

    with pytest.raises(ZeroDivisionError):
        run_tiles(fail_early, range(1000), 2)
    assert len(done) < 100
    assert blas_threads() == before


def test_calls_within_a_tile_stay_on_its_thread():
    def outer(_):
        here, inside = threading.get_ident(), set()
        list(tile_map(lambda _: inside.add(threading.get_ident()), range(4), 2))
        run_tiles(lambda _: inside.add(threading.get_ident()), range(4), 2)
        assert inside == {here}

    run_tiles(outer, range(6), 2)


def test_afterwards_the_calling_thread_shares_its_work_again():
    run_tiles(lambda _: None, range(4), 2)
    sizes = []
    together(lambda thread, n_threads: sizes.append(n_threads), 2)
    assert set(sizes) == {2}
