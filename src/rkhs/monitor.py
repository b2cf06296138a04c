"""What watches a fit: history, early stopping, callbacks."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from rkhs.data import RowSource
from rkhs.problem import Problem
from rkhs.solvers import Solver
from rkhs.solvers._base import State


class Result(Enum):
    """Why a fit ended; each value is the sentence for the user."""

    CONVERGED = "The solver reached its tolerance."
    MAX_EPOCHS = "The largest number of epochs was reached before the tolerance."
    TIME_BUDGET = "The time budget was used up."
    EARLY_STOPPING = "The loss on the validation rows stopped falling; the best epoch was kept."
    STREAM = "All rows that were given so far are learnt."
    CALLBACK = "A callback asked to stop."


def copied(state: State) -> State:
    """A state to keep: solvers may change their arrays in place."""
    return replace(state, coef=state.coef.copy())


@dataclass
class Validation:
    """Rows kept apart to measure the loss on."""

    source: RowSource
    target: np.ndarray
    weight: np.ndarray


@dataclass
class Monitor:
    """Records every epoch, and says when enough is enough.

    Parameters
    ----------
    validation : Validation, optional
        With it, the fit stops when the loss there has not improved for `patience` epochs.
    patience : int
    before_step, after_step : callables, optional
        Called around each epoch; the second gets the state and may return True to stop.
    """

    validation: Validation | None = None
    patience: int = 5
    before_step: Callable[[], None] | None = None
    after_step: Callable[[State], bool] | None = None
    history: list[dict] = field(default_factory=list)
    best_state: State | None = None
    _best_loss: float = np.inf
    _worse: int = 0

    def begin_epoch(self) -> None:
        if self.before_step is not None:
            self.before_step()

    def end_epoch(
        self, problem: Problem, solver: Solver, state: State, seconds: float
    ) -> Result | None:
        """Record an epoch; a reason to stop, or None."""
        row: dict[str, object] = {
            "epoch": len(self.history) + 1,
            "seconds": seconds,
            "objective": state.objective,
            **state.details,
        }
        if state.note:
            row["note"] = state.note
        if self.validation is not None:
            row["validation_loss"] = self._validate(problem, solver, state, self.validation)
        self.history.append(row)
        if self.after_step is not None and self.after_step(state):
            return Result.CALLBACK
        if self._worse >= self.patience:
            return Result.EARLY_STOPPING
        return Result.CONVERGED if state.converged else None

    def _validate(self, problem, solver, state, rows):
        f = solver.finish(problem, state).evaluate(rows.source, problem.n_jobs)
        loss = problem.loss.value(f.astype(np.float64), rows.target, rows.weight)
        if loss < self._best_loss:
            self.best_state = copied(state)
            self._best_loss, self._worse = loss, 0
        else:
            self._worse += 1
        return loss
