"""How much memory the machine has left."""

import os
from pathlib import Path

_FALLBACK = 2 * 2**30
_CGROUP = Path("/sys/fs/cgroup")


def _read_number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return None


def available_memory() -> int:
    """Bytes that a new allocation can use: free memory, within the container's limit."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        free = int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        try:
            free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
        except (AttributeError, OSError, ValueError):
            free = _FALLBACK
    limit, used = (_read_number(_CGROUP / name) for name in ("memory.max", "memory.current"))
    if limit is not None and used is not None:
        free = min(free, max(limit - used, 0))
    return free
