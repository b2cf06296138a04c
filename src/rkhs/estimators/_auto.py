"""What "auto" means: the one place that holds these rules.

With kernel, features, solver, alpha and length scale all at "auto", a smooth loss, and 1,000
rows or more, the model is searched for (see below). Otherwise:

| what | rule |
|---|---|
| kernel | `Laplacian` for "random_binning", else `Gaussian` |
| features | none (the kernel's whole space) up to 2,000 rows and for `Exact` and `EigenPro`; beyond, or for a solver that needs features or penalty="l1", `Nystrom`; `RandomFourier` for the doubly stochastic solvers |
| centres of "nystrom" | 8 sqrt(n), between 500 and 10,000, their matrices within a quarter of the memory |
| solver | `CoordinateDescent` for penalty="l1"; `Exact` without features, up to 2,000 rows (500 for softmax, whose outputs are solved together); else by the loss: `ConjugateGradient` for the squared error, `NewtonCG` for other smooth losses, `SGD` for losses with a kink |
| alpha | 1 / n, n the sum of the sample weights: scikit-learn's ``KernelRidge(alpha=1)`` and ``SVC(C=1)`` |
| length scale | per column the standard deviation, times the median distance (see `rkhs.kernels`) |
"""

import re

import numpy as np

from rkhs.compute import available_memory
from rkhs.features import FEATURES, FeatureMap, Nystrom
from rkhs.kernels import Gaussian, Kernel
from rkhs.losses import Loss
from rkhs.registry import build
from rkhs.solvers import (
    SGD,
    SOLVERS,
    ConjugateGradient,
    CoordinateDescent,
    Exact,
    NewtonCG,
    Solver,
)

SMALL = 2000
SMALL_COUPLED = 500
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def choose(
    n_rows: int, loss: Loss, features, solver, memory: int, random_state, tol, penalty="l2"
) -> tuple[FeatureMap | None, Solver]:
    """Feature map (unfitted) and solver for names, objects, None and "auto"."""
    small = n_rows <= SMALL
    if isinstance(solver, Solver):
        features = solver.represent(features)
    kind = SOLVERS.get(solver) if isinstance(solver, str) else type(solver)
    wants_whole_space = getattr(kind, "whole_space", False)
    needs_features = penalty == "l1" or getattr(kind, "needs_features", False)
    if isinstance(features, str) and features == "auto":
        whole_space = (small and not needs_features) or wants_whole_space
        features = None if whole_space else getattr(kind, "default_features", "nystrom")
    if isinstance(features, str) and features == "nystrom":
        largest = int(np.sqrt(memory / 4 / 32))
        n_centers = int(np.clip(8 * np.sqrt(n_rows), 500, 10_000))
        features = Nystrom(max(1, min(n_centers, largest)), random_state=random_state)
    elif features is not None:
        features = build(features, FEATURES, FeatureMap, "features", random_state=random_state)
        if features.random_state is None:
            features.random_state = random_state
    if isinstance(solver, str) and solver == "auto":
        exact = features is None and n_rows <= (SMALL_COUPLED if loss.coupled else SMALL)
        exact = exact or (features is None and loss.curvature is None)  # nothing else could
        kind = CoordinateDescent if penalty == "l1" else _solver_for(loss, exact)
        solver = kind() if tol is None else kind(tol=tol)
    else:
        given = {} if tol is None else {"tol": tol}
        if given and not isinstance(solver, str):
            raise ValueError(
                f"tol={tol!r} and solver={solver!r} were both given. Set tol in the solver alone."
            )
        solver = build(solver, SOLVERS, Solver, "solver", **given)
    return features, solver


def default_kernel(features) -> type[Kernel]:
    """The class of kernel that suits features: a name, an object, None or "auto"."""
    kind = FEATURES.get(features) if isinstance(features, str) else features
    return getattr(kind, "default_kernel", Gaussian)


def _solver_for(loss: Loss, exact: bool) -> type[Solver]:
    if exact:
        return Exact
    if loss.quadratic:
        return ConjugateGradient
    return SGD if loss.curvature is None else NewtonCG


def parse_memory(limit) -> int:
    """Bytes of a memory limit: a number, "2GB", "512 MiB", or "auto" for half of what is free."""
    if isinstance(limit, str):
        if limit == "auto":
            return available_memory() // 2
        match = re.fullmatch(r"\s*([0-9.]+)\s*([kmgt]?)(i?)b?\s*", limit.lower())
        if match and match[1].count(".") <= 1 and match[1] != ".":
            units = _BINARY_UNITS if match[3] else _UNITS
            if match[2] in units:
                return int(float(match[1]) * units[match[2]])
    elif np.isreal(limit) and not isinstance(limit, bool) and limit is not None and limit > 0:
        return int(limit)
    raise ValueError(
        f'memory_limit must be "auto", a number of bytes or a size such as "2GB"; got {limit!r}.'
    )
