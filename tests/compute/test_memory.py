"""Free memory is the machine's, within the container's limit."""

import os

import pytest

from rkhs.compute import _memory, available_memory


def total_memory():
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def container(tmp_path, monkeypatch):
    """Writes a container's limit and use."""
    monkeypatch.setattr(_memory, "_CGROUP", tmp_path)

    def write(limit, used):
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        (tmp_path / "memory.current").write_text(f"{used}\n")

    return write


def test_free_memory_is_positive_and_less_than_the_machine_has():
    assert 0 < available_memory() <= total_memory()


def test_a_containers_limit_counts(container):
    container(50 * 2**20, 20 * 2**20)
    assert available_memory() == 30 * 2**20


def test_a_container_without_a_limit_does_not_count(container):
    container("max", 20 * 2**20)
    assert available_memory() > 2**20


def test_a_full_container_has_nothing_left(container):
    container(10 * 2**20, 20 * 2**20)
    assert available_memory() == 0


def test_a_machine_without_meminfo_offers_half_its_memory(monkeypatch, tmp_path):
    class NoFile(type(tmp_path)):
        def read_text(self, *args, **kwargs):
            raise OSError

    monkeypatch.setattr(_memory, "Path", NoFile)
    monkeypatch.setattr(_memory, "_CGROUP", NoFile(tmp_path))
    assert available_memory() == total_memory() // 2
