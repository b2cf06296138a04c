"""What a measurement needs to be believed: best of several runs, and who else was running."""

import os
import platform
import time
from contextlib import contextmanager


def _busy_jiffies() -> tuple[float, float]:
    """Seconds of CPU that all processes, and this one with its children, have used."""
    with open("/proc/stat") as file:
        fields = [int(field) for field in file.readline().split()[1:]]
    busy = sum(fields) - fields[3] - fields[4]
    own = sum(os.times()[:4])
    return busy / os.sysconf("SC_CLK_TCK"), own


class Neighbours:
    """The share of the machine's CPU that other processes took."""

    share = float("nan")


@contextmanager
def neighbours():
    """Measure who else was running meanwhile (Linux; elsewhere the share stays unknown)."""
    found = Neighbours()
    try:
        all_before, own_before = _busy_jiffies()
    except OSError:
        yield found
        return
    begin = time.perf_counter()
    yield found
    seconds = time.perf_counter() - begin
    all_after, own_after = _busy_jiffies()
    others = (all_after - all_before) - (own_after - own_before)
    found.share = max(0.0, others) / (seconds * (os.cpu_count() or 1))


def best(function, repeats=5) -> float:
    """Seconds of the fastest of several runs."""
    return best_of_each({"": function}, repeats)[""]


def best_of_each(functions: dict, repeats=5) -> dict[str, float]:
    """Seconds of the fastest of several runs of each, by turns: the clock's speed drifts."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            begin = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - begin)
    return {name: min(of_one) for name, of_one in times.items()}


def thread_gain() -> float:
    """How many times faster two threads are than one at sines, which need no memory."""
    import numpy as np
    from numba import njit

    from rkhs.compute import tile_map

    @njit(nogil=True)
    def sines(count):
        total = 0.0
        for i in range(count):
            total += np.sin(i * 1e-3)
        return total

    sines(1)
    one, two = (best(lambda n=n: list(tile_map(sines, [300_000] * 16, n)), 9) for n in (1, 2))
    return one / two


def peak_bytes() -> int:
    """The most memory that this process has held so far (Linux).

    Not from getrusage, whose peak is inherited from the process that started this one.
    """
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def describe() -> str:
    """The machine in a line."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            name = next(line.split(":")[1].strip() for line in file if "model name" in line)
    except (OSError, StopIteration):
        pass
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}"
