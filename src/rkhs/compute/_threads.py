"""Tiles over threads: both cores busy, and the same bits for any number of them.

Each tile is computed by one thread with a single-threaded BLAS, so its value depends on
the tile alone; results come back in order, so sums over tiles do not depend on the
number of threads either.
"""

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")


class _SingleThreadedBlas:
    """Holds BLAS at one thread while anyone is inside; safe to enter from many threads.

    BLAS's threads spin for a while after each call, on cores that tiles want.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._inside = 0
        self._controller: ThreadpoolController | None = None
        self._limit = contextlib.ExitStack()

    def __enter__(self):
        with self._lock:
            if self._inside == 0:
                if self._controller is None:
                    import scipy.linalg  # noqa: F401  its BLAS must be loaded to be found

                    self._controller = ThreadpoolController()
                self._limit.enter_context(self._controller.limit(limits=1, user_api="blas"))
            self._inside += 1

    def __exit__(self, *exception):
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.close()


single_threaded_blas = _SingleThreadedBlas()


_SMALL = 1500


def blas_for(size: int):
    """BLAS's own threads for matrices of this size, one for those too small to share.

    Threads that wait for each other over a small matrix cost far more than they save as soon
    as another process wants a core.
    """
    return contextlib.nullcontext() if size > _SMALL else single_threaded_blas


def core_count(n_jobs: int | None) -> int:
    """Threads for `n_jobs`: None and -1 mean every core, -2 all but one, and so on."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    cores = available or os.cpu_count() or 1
    if n_jobs is None:
        return cores
    if n_jobs == 0:
        raise ValueError("n_jobs=0 has no meaning; use a positive number, or None for all cores.")
    return n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


def slices(total: int, size: int) -> list[slice]:
    """Consecutive slices of at most `size` that cover ``range(total)``."""
    return [slice(start, min(start + size, total)) for start in range(0, total, size)]


_buffers = threading.local()


def scratch(name: str, shape: tuple[int, int], dtype) -> np.ndarray:
    """This thread's array of that name, with whatever was left in it.

    Memory that is new to the system costs as much as a pass over it, each time.
    """
    kept: dict = _buffers.__dict__
    key, size = (name, np.dtype(dtype).char), shape[0] * shape[1]
    if key not in kept or kept[key].size < size:
        kept[key] = np.empty(size, dtype)
    return kept[key][:size].reshape(shape)


_LONGEST_RUN = 4
_RUNS = 64  # of tiles, that sums are taken over


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    """Threads that stay: starting them anew costs as much as a pass over a small table."""
    return ThreadPoolExecutor(n_threads, "rkhs", initializer=_mark_as_worker)


_worker = threading.local()


def _mark_as_worker():
    _worker.inside = True


def _is_worker() -> bool:
    return getattr(_worker, "inside", False)


if hasattr(os, "register_at_fork"):  # a forked child has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def tile_map(
    function: Callable[[T], R], tiles: Iterable[T], n_jobs: int | None = None
) -> Iterator[R]:
    """Apply `function` to each tile on several threads and yield the results in order.

    Threads take a few tiles at a time, and at most two such runs a thread are under way or
    waiting, so memory stays bounded. Within a tile, another call works on that tile's own
    thread.
    """
    tiles = list(tiles)
    n_threads = min(core_count(n_jobs), len(tiles))
    with single_threaded_blas:
        if n_threads <= 1 or _is_worker():
            yield from map(function, tiles)
            return
        submit = _pool(core_count(n_jobs)).submit
        length = min(_LONGEST_RUN, -(-len(tiles) // (8 * n_threads)))
        pending: deque = deque()
        try:
            for run in slices(len(tiles), length):
                pending.append(submit(lambda run: list(map(function, tiles[run])), run))
                if len(pending) >= 2 * n_threads:
                    yield from pending.popleft().result()
            while pending:
                yield from pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
            wait(pending)


def run_tiles(
    function: Callable[[T], object],
    tiles: Iterable[T],
    n_jobs: int | None = None,
    with_caller: bool = True,
) -> None:
    """Apply `function` to each tile on several threads, this one among them.

    Without results to hand over, a thread is woken once and not for every tile. Within a tile,
    another call works on that tile's own thread. Work that keeps buffers for its thread leaves the
    caller's out: the pool's have them already.
    """
    waiting = deque(tiles)

    def work(thread, n_threads):
        while waiting:
            try:
                tile = waiting.popleft()
            except IndexError:  # another thread has taken the last one
                return
            try:
                function(tile)
            except BaseException:
                waiting.clear()
                raise

    together(work, n_jobs, len(waiting), with_caller, waiting.clear)


def sum_tiles(
    function: Callable[[T], np.ndarray],
    tiles: Iterable[T],
    total: np.ndarray,
    n_jobs: int | None = None,
) -> np.ndarray:
    """Add what `function` gives for each tile to `total`, which is returned.

    Threads take a few tiles at a time, which they add up by themselves: as many as the number of
    tiles says, so that the sum is the same for any number of threads.
    """
    tiles = list(tiles)
    runs = slices(len(tiles), max(1, -(-len(tiles) // _RUNS)))
    lock, early = threading.Lock(), {}  # sums of runs whose turn has not come
    turn = iter(range(len(runs)))
    following = next(turn, None)

    def add(number):
        nonlocal following
        first, *others = tiles[runs[number]]
        part = np.array(function(first), total.dtype)
        for tile in others:
            part += function(tile)
        with lock:
            early[number] = part
            while following in early:
                np.add(total, early.pop(following), out=total)
                following = next(turn, None)

    run_tiles(add, range(len(runs)), n_jobs, with_caller=False)
    return total


def together(
    function: Callable[[int, int], object],
    n_jobs: int | None = None,
    most: int | None = None,
    with_caller: bool = True,
    abandon: Callable[[], object] = lambda: None,
) -> None:
    """Call ``function(thread, n_threads)`` on several threads at once, this one among them.

    There are at most `most`: as many as the work has parts. The function must share out its
    work by itself, and manage with fewer threads than were asked for: those that are busy with
    something else come late or not at all. `abandon` is called if something is raised here, an
    interrupt perhaps, so that the others end soon.
    """
    was_worker = _is_worker()
    cores = 1 if was_worker else core_count(n_jobs)
    n_threads = cores if most is None else min(cores, most)
    with_caller = with_caller or n_threads <= 1
    with single_threaded_blas:
        first = 1 if with_caller else 0
        helpers = [
            _pool(cores).submit(function, thread, n_threads) for thread in range(first, n_threads)
        ]
        try:
            if with_caller:
                _worker.inside = True
                function(0, n_threads)
            else:
                wait(helpers)
        except BaseException:
            abandon()
            raise
        finally:
            _worker.inside = was_worker
            for helper in helpers:  # nothing is left to do, or nothing shall be
                helper.cancel()
            wait(helpers)
    for helper in helpers:
        if not helper.cancelled():
            helper.result()
