"""Named tables: from a folder of the user's, else through scikit-learn's downloads."""

import os
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Dataset(NamedTuple):
    """A table with its targets.

    Parameters
    ----------
    X, y : arrays
        All rows, or the training rows of the official split.
    X_test, y_test : arrays or None
        The test rows of the official split, if there is one.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.datasets import Dataset
    >>> Dataset(np.eye(2), np.array([0, 1])).X_test is None
    True
    """

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray | None = None
    y_test: np.ndarray | None = None


def _california_housing() -> Dataset:
    """The raw columns of the census, from scikit-learn's table of ratios."""
    from sklearn.datasets import fetch_california_housing

    ratios, value = fetch_california_housing(return_X_y=True)
    income, age, rooms, bedrooms, population, occupancy, latitude, longitude = ratios.T
    households = np.rint(population / occupancy)
    counts = np.rint(rooms * households), np.rint(bedrooms * households)
    columns = longitude, latitude, age, *counts, population, households, income
    dollars = np.rint(value * 1e5)
    return Dataset(np.stack(columns, axis=1).astype(np.float32), dollars.astype(np.float32))


def _covtype() -> Dataset:
    from sklearn.datasets import fetch_covtype

    X, y = fetch_covtype(return_X_y=True)
    return Dataset(X.astype(np.float32), y.astype(np.int8))


def _mnist() -> Dataset:
    from sklearn.datasets import fetch_openml

    X, y = fetch_openml("mnist_784", version=1, return_X_y=True, as_frame=False)
    X, y = X.astype(np.uint8), y.astype(np.uint8)
    return Dataset(X[:60_000], y[:60_000], X[60_000:], y[60_000:])


_DOWNLOADS: dict[str, Callable[[], Dataset]] = {
    "california_housing": _california_housing,
    "covtype": _covtype,
    "mnist": _mnist,
}


def load(name: str) -> Dataset:
    """A table by its name.

    Looked for first as ``NAME.npz`` (arrays `X`, `y`, and `X_test`, `y_test` if the table
    has an official split) in the folder that the environment variable ``RKHS_DATA`` names.
    Otherwise "california_housing", "covtype" and "mnist" are downloaded once and cached by
    scikit-learn.

    Parameters
    ----------
    name : str

    Returns
    -------
    dataset : Dataset
        Named tuple of `X`, `y`, `X_test` and `y_test`; nothing is scaled.

    Examples
    --------
    >>> import os, tempfile
    >>> from unittest.mock import patch
    >>> import numpy as np
    >>> from rkhs.datasets import load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(os.path.join(folder, "corners.npz"), X=np.eye(2), y=[0, 1])
    ...     with patch.dict(os.environ, RKHS_DATA=folder):
    ...         load("corners").y
    array([0, 1])
    """
    folder = os.environ.get("RKHS_DATA")
    files = {path.stem: path for path in Path(folder).glob("*.npz")} if folder else {}
    if name in files:
        return _read(files[name])
    if name in _DOWNLOADS:
        return _downloaded(name)
    known = ", ".join(repr(known) for known in sorted({*files, *_DOWNLOADS}))
    place = f"NAME.npz in {folder!r}" if folder else "a folder of NAME.npz files in RKHS_DATA"
    raise ValueError(f"There is no data set {name!r}. Known are {known}; add others as {place}.")


def _downloaded(name: str) -> Dataset:
    try:
        return _DOWNLOADS[name]()
    except OSError as error:  # no network, no room on the disk
        raise OSError(
            f"{name!r} could not be downloaded ({error}). Put it as {name}.npz, with arrays X "
            "and y, into a folder, and set the environment variable RKHS_DATA to that folder."
        ) from error


def _read(path: Path) -> Dataset:
    damaged = f"{str(path)!r} is damaged, or no file of numpy.savez."
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError(damaged)
        try:
            with np.load(file, allow_pickle=False) as arrays:
                fields = {name: arrays[name] for name in Dataset._fields if name in arrays}
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
            raise ValueError(damaged) from error
    missing = [field for field in ("X", "y") if field not in fields]
    if missing:
        raise ValueError(f"{str(path)!r} has no array named {' or '.join(missing)}.")
    return Dataset(**fields)
