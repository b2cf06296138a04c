"""Machines that take more rows: what they keep, and which can."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs.features import FEATURES
from rkhs.problem import Problem
from rkhs.solvers import SOLVERS


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
    state : State
    history : list of dict
    """

    problem: Problem
    dtype: np.dtype
    solver: Any
    state: Any
    history: list[dict]


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
