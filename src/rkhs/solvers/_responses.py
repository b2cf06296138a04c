"""Losses and their derivatives at the responses of coordinate descent, on all cores.

Rows are in the order that the state's columns ask for. Sums do not depend on the number of
threads.
"""

import numpy as np

from rkhs.compute import run_tiles, slices

_ROWS = 65_536  # at a time: what fewer gain from a second thread is lost to the lock between calls
_LEAST_BEND = 0.01  # second derivative over its bound, below which it is not trusted


def objective_at(problem, state, coef, f, slopes=None) -> float:
    """The objective; weighted derivatives of the losses go to `slopes`, if given."""
    loss, tiles = problem.loss, slices(len(f), _ROWS)
    parts = np.empty(len(tiles))

    def work(number):
        rows = tiles[number]
        here, target, weight = f[rows], state.target[rows], state.weight[rows]
        parts[number] = weight @ loss.elementwise(here, target).sum(axis=1)
        if slopes is not None:
            np.multiply(weight[:, None], loss.derivative(here, target), out=slopes[rows])

    run_tiles(work, range(len(tiles)), problem.n_jobs)
    return float(parts.sum()) + problem.penalty_value(coef, f)


def second_derivatives(problem, state) -> np.ndarray:
    """Second derivatives of the losses, without weights."""
    out = np.empty_like(state.f)

    def work(rows):
        out[rows] = problem.loss.second_derivative(state.f[rows], state.target[rows])

    run_tiles(work, slices(len(out), _ROWS), problem.n_jobs)
    return out


def trusted_bends(problem, state) -> np.ndarray:
    """Weighted second derivatives of a model of the losses that steps may be taken on."""
    loss, out = problem.loss, np.empty_like(state.f)

    def work(rows):
        second = loss.second_derivative(state.f[rows], state.target[rows])
        if loss.coupled:
            second *= 2.0  # diag(p) - p p^T is at most twice its own diagonal
        np.clip(second, _LEAST_BEND * loss.curvature, loss.curvature, out=second)
        np.multiply(state.weight[rows, None], second, out=out[rows])

    run_tiles(work, slices(len(out), _ROWS), problem.n_jobs)
    return out


def table_order(state, values) -> np.ndarray:
    """Rows in the order of the table."""
    if state.columns.order is None:
        return values
    out = np.empty_like(values)
    out[state.columns.order] = values
    return out
