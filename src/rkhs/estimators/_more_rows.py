"""Machines that take more rows: what they keep, and which can."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rkhs.features import FEATURES
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
        n_blocks = len(state.edges) - 1
        shape = (int(state.edges[-1]), 2, n_outputs)
        shapes = state.coef.shape, state.iterate.shape, state.drift.shape
        if shapes != (shape, shape, (n_blocks, n_outputs)):
            raise ValueError("the shapes of its arrays do not agree")
        parts: dict[str, Any] = {name: record[name] for name in _OF_PROBLEM}
        parts |= {"source": None, "weight": None, "operator": None}
        problem = Problem(**parts, target=np.empty((0, n_outputs)))
        return cls(problem, np.dtype(record["dtype"]), record["solver"], state)


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
