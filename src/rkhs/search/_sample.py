"""Rows to learn from: each once, in an order that depends on nothing but what they hold."""

from typing import NamedTuple

import numpy as np

from rkhs.data import RowSource, row_keys


class Distinct(NamedTuple):
    """Rows that differ, in random order, each standing for all that are equal to it."""

    rows: np.ndarray  # numbers of rows of the source
    target: np.ndarray  # mean over the equal rows
    weight: np.ndarray  # their sum


def distinct_rows(
    source: RowSource, target: np.ndarray, weight: np.ndarray, seed: int, n_jobs=None
) -> Distinct:
    """The rows of a source, equal ones merged, sorted by a random key of their content.

    So a row of weight 3 is the same as three copies of it, the order of the table makes no
    difference, and no row is both learnt from and judged by.
    """
    keys = row_keys(source, seed, n_jobs)
    keys, rows, place = np.unique(keys, return_index=True, return_inverse=True)
    total = np.bincount(place, weight)
    if len(keys) == len(weight):
        return Distinct(rows, target[rows], total)
    sums = [np.bincount(place, weight * column) for column in target.T]
    return Distinct(rows, np.stack(sums, axis=1) / total[:, None], total)
