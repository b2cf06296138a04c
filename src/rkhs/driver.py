"""The one loop that steps a solver."""

import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from rkhs.expansion import Expansion
from rkhs.monitor import Monitor, Result
from rkhs.problem import Problem
from rkhs.solvers import Solver
from rkhs.solvers._base import State


@dataclass(frozen=True)
class Fit:
    """What a run gave.

    Attributes
    ----------
    expansion : Expansion
    state : State
        The solver's last state, or the best on the validation rows.
    result : Result
        Why the run ended.
    history : list of dict
        One row an epoch.
    """

    expansion: Expansion
    state: State
    result: Result
    history: list[dict]


def run(
    problem: Problem,
    solver: Solver,
    monitor: Monitor | None = None,
    max_epochs: int | None = None,
    time_budget: float | None = None,
) -> Fit:
    """Step a solver until it converges, the budget ends, or someone stops it."""
    monitor = Monitor() if monitor is None else monitor
    max_epochs = solver.max_epochs if max_epochs is None else max_epochs
    begin = time.perf_counter()
    deadline = np.inf if time_budget is None else begin + time_budget
    state = solver.init(problem)
    result: Result | None = None
    while result is None:
        monitor.begin_epoch()
        state.deadline = deadline
        # The class's method: a solver may have a parameter of that name.
        state = type(solver).step(solver, problem, state)
        seconds = time.perf_counter() - begin
        result = monitor.end_epoch(problem, solver, state, seconds)
        if result is None and begin + seconds >= deadline:
            result = Result.TIME_BUDGET
        if result is None and len(monitor.history) >= max_epochs:
            result = Result.MAX_EPOCHS
    if result is Result.MAX_EPOCHS and solver.seeks_tolerance:
        warnings.warn(
            f"{type(solver).__name__} stopped after {max_epochs} epochs before it reached "
            "its tolerance. Raise max_epochs, tol or alpha.",
            ConvergenceWarning,
            stacklevel=2,
        )
    if monitor.best_state is not None:
        state = monitor.best_state
    return Fit(solver.finish(problem, state), state, result, monitor.history)


def path(
    problem: Problem, solver: Solver, alphas: Iterable[float], max_epochs: int | None = None
) -> Iterator[Fit]:
    """Solve a problem for one `alpha` after the other, each from the last one's coefficients.

    From the largest to the smallest is fastest: with the L1 penalty few coefficients are not
    zero at first.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.data import RowSource
    >>> from rkhs.driver import path
    >>> from rkhs.features import RandomBinning
    >>> from rkhs.losses import SquaredError
    >>> from rkhs.problem import Problem
    >>> from rkhs.solvers import CoordinateDescent
    >>> X = np.linspace(0, 6, 500)[:, None]
    >>> source, weight = RowSource(X), np.full(500, 1 / 500)
    >>> features = RandomBinning(16, random_state=0).fit_rows(source, weight, np.float32)
    >>> problem = Problem(
    ...     features.kernel_, SquaredError(), features, 0.1, source, np.sin(X), weight,
    ...     features.operator(source), penalty="l1",
    ... )
    >>> fits = list(path(problem, CoordinateDescent(), [0.1, 0.01, 0.001]))
    >>> counts = [np.count_nonzero(fit.state.coef) for fit in fits]
    >>> bool(counts[0] < counts[1] < counts[2])
    True
    """
    for alpha in alphas:
        problem = replace(problem, alpha=float(alpha))
        fit = run(problem, solver, max_epochs=max_epochs)
        yield fit
        problem = replace(problem, start=fit.state.coef.copy())
