"""Parquet files as memory maps, one block of rows in memory at a time."""

import tempfile
from pathlib import Path

import numpy as np

_BLOCK_BYTES = 32 * 2**20


def map_parquet(path, target=None, columns=None, to=None, dtype=np.float32):
    """The rows of Parquet files as a memory map that estimators can be fitted to.

    Solvers read rows in random order, and a Parquet file can only be read from front to back:
    so its numbers are copied once, block by block, to a file that is mapped. Fitting and
    predicting then hold a few rows at a time. Needs the extra `data` (pyarrow).

    Parameters
    ----------
    path : str or path-like
        A file, or a folder whose ``.parquet`` files are read in the order of their names.
    target : str, optional
        The column to be returned apart, as an array in memory.
    columns : list of str, optional
        The columns of the map, in that order; all but the target by default. They must be
        numbers or booleans; what is missing becomes NaN.
    to : str or path-like, optional
        The file to write; by default a temporary one that vanishes with the map.
    dtype : float32 or float64, default=float32

    Returns
    -------
    X : memory map of shape (rows, columns)
    y : array of shape (rows,)
        Only if `target` is given.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pyarrow
    >>> from pyarrow import parquet
    >>> from rkhs.data import map_parquet
    >>> table = pyarrow.table({"height": [1.0, 2.0], "width": [3, 4], "price": [5.0, 6.0]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     parquet.write_table(table, pathlib.Path(folder, "part-0.parquet"))
    ...     X, y = map_parquet(folder, target="price")
    >>> X.tolist(), y.tolist()
    ([[1.0, 3.0], [2.0, 4.0]], [5.0, 6.0])
    """
    try:
        from pyarrow import parquet
    except ImportError:
        raise ImportError(
            'Reading Parquet files needs pyarrow. Install it with pip install "rkhs[data]".'
        ) from None
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {dtype!r}.")
    files = [parquet.ParquetFile(name, memory_map=True) for name in _files(path)]
    names = _columns(files, target, columns)
    n_rows = sum(file.metadata.num_rows for file in files)
    if not n_rows:
        raise ValueError(f"{path} has no rows.")
    with tempfile.TemporaryFile() if to is None else open(to, "wb+") as room:
        X = np.memmap(room, dtype, "w+", shape=(n_rows, len(names)))
    targets, start = [], 0
    height = max(1024, _BLOCK_BYTES // (8 * (len(names) + 1)))
    for file in files:
        for batch in file.iter_batches(height, columns=[*names, *filter(None, [target])]):
            rows = slice(start, start + len(batch))
            for number, name in enumerate(names):
                X[rows, number] = batch.column(name).to_numpy(zero_copy_only=False)
            if target is not None:
                targets.append(batch.column(target).to_numpy(zero_copy_only=False))
            start = rows.stop
    X.flush()
    X.flags.writeable = False
    return X if target is None else (X, np.concatenate(targets))


def _files(path):
    path = Path(path)
    if not path.is_dir():
        return [path]
    found = sorted(path.rglob("*.parquet"))
    if not found:
        raise FileNotFoundError(f"{path} is a folder without .parquet files.")
    return found


def _columns(files, target, columns):
    """Names of the map's columns, after all files have been asked for them."""
    from pyarrow import types

    first = files[0].schema_arrow
    names = [name for name in first.names if name != target] if columns is None else list(columns)
    for file in files:
        schema = file.schema_arrow
        for name in [*names, *filter(None, [target])]:
            if name not in schema.names:
                raise ValueError(
                    f"There is no column {name!r} in every file; the first has {first.names}."
                )
        for name in names:
            kind = schema.field(name).type
            if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
                raise ValueError(
                    f"Column {name!r} holds {kind}, and a map holds numbers alone. Leave it out "
                    "by columns=..., or turn it into numbers first."
                )
    return names
