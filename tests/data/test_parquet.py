"""Parquet files become maps of their numbers; what a map cannot hold is refused by name."""

import sys
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from rkhs import KernelRegressor
from rkhs.data import map_parquet
from rkhs.solvers import EigenPro


@pytest.fixture
def folder(tmp_path):
    """Two files of different columns' types, and something else."""
    whole, real, flag = np.arange(10), np.linspace(0, 1, 10), np.arange(10) % 3 == 0
    for number, part in enumerate((slice(0, 6), slice(6, 10))):
        table = pa.table(
            {
                "whole": pa.array(whole[part], [pa.int8(), pa.int64()][number]),
                "real": pa.array(real[part]),
                "flag": pa.array(flag[part]),
                "name": pa.array([f"row {i}" for i in whole[part]]),
            }
        )
        parquet.write_table(table, tmp_path / f"part-{number}.parquet", row_group_size=4)
    (tmp_path / "notes.txt").write_text("not a table")
    return tmp_path, np.stack([whole, real, flag], axis=1)


def test_a_folder_is_one_map_in_the_order_of_its_files(folder, tmp_path):
    path, values = folder
    X, y = map_parquet(path, target="name", dtype=np.float64)
    assert isinstance(X, np.memmap)
    assert np.array_equal(X, values)
    assert list(y) == [f"row {i}" for i in range(10)]
    kept = map_parquet(path / "part-1.parquet", columns=["flag", "whole"], to=tmp_path / "kept")
    assert kept.dtype == np.float32
    assert np.array_equal(kept, values[6:][:, [2, 0]])
    assert np.array_equal(np.fromfile(tmp_path / "kept", np.float32), kept.ravel())


def test_what_is_missing_becomes_nan(tmp_path):
    parquet.write_table(pa.table({"a": [1, None, 3]}), tmp_path / "one.parquet")
    assert np.array_equal(map_parquet(tmp_path)[:, 0], [1, np.nan, 3], equal_nan=True)


def test_what_cannot_be_mapped_is_said(folder, tmp_path, monkeypatch):
    path, _ = folder
    with pytest.raises(ValueError, match=r"Column 'name' holds string.*columns="):
        map_parquet(path)
    with pytest.raises(ValueError, match=r"no column 'price'.*whole"):
        map_parquet(path, target="price", columns=["real"])
    with pytest.raises(ValueError, match="dtype must be"):
        map_parquet(path, dtype=np.int32)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"without \.parquet"):
        map_parquet(tmp_path / "empty")
    with pytest.raises(FileNotFoundError):
        map_parquet(tmp_path / "nowhere.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"rkhs\[data\]"):
        map_parquet(path)


def test_fitting_centres_to_mapped_rows_holds_a_few_rows_at_a_time(tmp_path):
    """A table of 40 MB, and half of it in memory at most."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal(size=(20_000, 500), dtype=np.float32)
    y = np.sin(X[:, 0])
    columns = {f"x{c}": X[:, c] for c in range(500)}
    table = pa.table({**columns, "y": y})
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=4096)
    model = KernelRegressor(
        "gaussian",
        solver=EigenPro(centers=200, batch_size=512, subsample=300),
        length_scale=20.0,
        alpha=1e-4,
        max_epochs=1,
        memory_limit="16MB",
        random_state=0,
    ).fit(X[:1000], y[:1000])  # compiles
    del columns, table, X
    tracemalloc.start()
    try:
        rows, target = map_parquet(tmp_path / "rows.parquet", target="y")
        model.fit(rows, target)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert model.expansion_.centers.shape == (200, 500)
    assert peak < 20e6
