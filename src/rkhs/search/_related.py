"""Length scales of the columns that have to do with the target, as if there were no others."""

import time
from typing import NamedTuple

import numpy as np

from rkhs.data import RowSource
from rkhs.kernels._base import StationaryKernel
from rkhs.search._relations import unrelated_columns
from rkhs.search._sample import Distinct, distinct_rows
from rkhs.search._scales import LEARNT, SAMPLE_ROWS, SAMPLES, STEPS, Scales, do_good, learn_scales

FEWEST_ROWS = 50  # that differ, from which some can be held out
_SAMPLED = 10**7  # numbers that scales are learnt from


class Related(NamedTuple):
    """The columns that a model is made of, and what was learnt of them.

    Attributes
    ----------
    columns : array of int
        Their numbers in the table.
    source : RowSource
        The table with them alone.
    distinct : Distinct
        Its rows.
    scales : Scales
        Learnt from the first of them.
    """

    columns: np.ndarray
    source: RowSource
    distinct: Distinct
    scales: Scales

    @property
    def sample(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The rows that scales were learnt from, their targets and weights."""
        return _sample(self.source, self.distinct)

    def widened(self, values, fill: float, n_columns: int) -> np.ndarray:
        """Values of these columns, the last axis, among those of all."""
        values = np.asarray(values)
        wide = np.full((*values.shape[:-1], n_columns), fill)
        wide[..., self.columns] = values
        return wide


def learn_related(
    kernel: StationaryKernel,
    source: RowSource,
    target,
    weight,
    seed: int,
    n_jobs=None,
    deadline: float = np.inf,
) -> Related:
    """Length scales (see `learn_scales`) of the columns that are related to the target.

    Columns that no chain of dependent pairs joins to the target are left out of the table, so
    that what is found without them is the same whatever they hold: all rows tell more of what is
    noise than samples do. They come back if little is learnt without them, or if the error falls
    when they do.
    """
    n_columns = source.shape[1]
    distinct = distinct_rows(source, target, weight, seed, n_jobs)

    def learnt(columns, part, rows):
        scales = learn_scales(kernel, *_sample(part, rows), part.categorical, n_jobs, deadline)
        return Related(columns, part, rows, scales)

    unrelated = unrelated_columns(*_sample(source, distinct), source.categorical, n_jobs)
    columns = np.flatnonzero(~unrelated)
    found = None
    if 0 < len(columns) < n_columns:
        part = source.only(columns)
        own = distinct_rows(part, target, weight, seed, n_jobs)
        found = learnt(columns, part, own if len(own.rows) >= FEWEST_ROWS else distinct)
        if found.scales.error < LEARNT and not _are_missed(
            kernel, source, distinct, found, unrelated, n_jobs, deadline
        ):
            return found
    everything = learnt(np.arange(n_columns), source, distinct)
    late = time.perf_counter() > deadline
    return found if found and late and found.scales.error < everything.scales.error else everything


def _are_missed(kernel, source, distinct, found, columns, n_jobs, deadline):
    """Whether columns that were left out would have done good."""
    X, target, weight = _sample(source, distinct)
    if not np.ptp(X[:, columns], axis=0).any():
        return False
    scale = found.widened(found.scales.length_scale, np.inf, source.shape[1])
    scales = found.scales._replace(length_scale=scale)
    data = X, target, weight, source.categorical
    return do_good(kernel, *data, scales, columns, n_jobs, deadline)


def _sample(source: RowSource, distinct: Distinct) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The first rows of all that differ, their targets and weights."""
    few = slice(0, sample_size(source))
    return source[distinct.rows[few]], distinct.target[few], distinct.weight[few]


def sample_size(source: RowSource) -> int:
    """Rows that length scales are learnt from, if there are as many."""
    most = max(SAMPLE_ROWS, _SAMPLED // source.shape[1])
    return min(len(source), STEPS * SAMPLES * SAMPLE_ROWS, most)


def scales_line(related: Related, n_columns: int) -> str:
    """What was learnt, for a report."""
    used = np.isfinite(related.scales.length_scale).sum()
    noise = n_columns - len(related.columns)
    n_rows = min(len(related.distinct.rows), sample_size(related.source))
    return (
        f"length scales of {used} of {n_columns} columns from {n_rows} rows"
        + (f" ({noise} are unrelated to the target)" if noise else "")
        + f": leave-one-out error {related.scales.error:.4g} of the variance"
    )
