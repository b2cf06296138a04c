"""Machines that take more rows: what they keep, and which can."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rkhs.features import FEATURES
from rkhs.kernels import Kernel
from rkhs.losses import Loss
from rkhs.problem import Problem
from rkhs.solvers import SOLVERS
from rkhs.solvers._doubly_stochastic import StreamState


@dataclass
class Stream:
    """Where a machine stands whose solver takes rows as they come: what it needs to go on.

    Attributes
    ----------
    problem : Problem
        Without rows.
    dtype : dtype
        Of features and coefficients.
    solver : Solver
    state : StreamState
    """

    problem: Problem
    dtype: np.dtype
    solver: Any
    state: StreamState

    def record(self) -> dict:
        """All of it as plain values, arrays and the library's own objects, for a model file."""
        problem, state = self.problem, self.state
        record = {name: getattr(problem, name) for name in _OF_PROBLEM}
        record |= {"n_outputs": problem.target.shape[1], "dtype": np.dtype(self.dtype).name}
        record["solver"] = self.solver
        names = [field.name for field in fields(state) if field.name != "deadline"]
        return record | {"state": {name: getattr(state, name) for name in names}}

    @classmethod
    def restored(cls, record: dict) -> "Stream":
        """What `record` was made of; a ValueError if its parts do not fit each other."""
        n_outputs, state = record["n_outputs"], StreamState(**record["state"])
        n_columns, solver = record["features"].n_features_in_, record["solver"]
        edges, waiting = np.asarray(state.edges), state.waiting or (np.empty((0, n_columns)),) * 3
        shape, n_waiting = (int(edges[-1]), 2, n_outputs), len(waiting[0])
        shapes = state.coef.shape, state.iterate.shape, state.drift.shape
        counters = state.count, state.reused, state.rows_seen, state.epoch, state.loss_rows
        numbers = state.scale, state.weight_seen, state.loss_sum, state.first_length
        estimates = state.largest_slope, state.spread, state.agreement
        if not (
            shapes == (shape, shape, (len(edges) - 1, n_outputs))
            and edges.dtype.kind == "i"
            and edges[0] == 0
            and (np.diff(edges) > 0).all()
            and all(type(value) is int and value >= 0 for value in counters)
            and np.isfinite([*numbers, *estimates]).all()
            and isinstance(record["kernel"], Kernel)
            and isinstance(record["loss"], Loss)
            and getattr(solver, "streams", False)
            and record["dtype"] in ("float32", "float64")
            and waiting[0].shape == (n_waiting, n_columns)
            and (not n_waiting or waiting[1].shape == (n_waiting, n_outputs))
            and (not n_waiting or waiting[2].shape == (n_waiting,))
        ):
            raise ValueError("the parts of its stream do not fit each other")
        parts: dict[str, Any] = {name: record[name] for name in _OF_PROBLEM}
        parts |= {"source": None, "weight": None, "operator": None}
        problem = Problem(**parts, target=np.empty((0, n_outputs)))
        return cls(problem, np.dtype(record["dtype"]), solver, state)


_OF_PROBLEM = ("kernel", "loss", "features", "alpha", "seed", "memory", "n_jobs", "penalty")


def streams(machine) -> bool:
    """Whether the machine's solver takes rows as they come."""
    return bool(getattr(kind_of(machine.solver, SOLVERS), "streams", False))


def takes_more_rows(machine) -> bool:
    """Whether `partial_fit` is there: features or a solver that grow, or a solver of streams."""
    return streams(machine) or grows(machine)


def grows(machine) -> bool:
    """Whether rows can be added to those of the last fit: by the features, or by the solver."""
    kind = kind_of(machine.features, FEATURES)
    if kind is None:  # features are None or "auto"
        kind = machine.solver
        kind = SOLVERS[kind]() if isinstance(kind, str) and kind in SOLVERS else kind
    return bool(getattr(kind, "grows", False))


def kind_of(thing, registry):
    """The object, or the class that a registry has under the name; None for an unknown name."""
    return registry.get(thing) if isinstance(thing, str) else thing
