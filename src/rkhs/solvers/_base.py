"""What every solver can do, and what it needs."""

import numbers
from dataclasses import dataclass, field

import numpy as np
from sklearn.base import BaseEstimator

from rkhs.expansion import Expansion
from rkhs.losses import LOSSES, Loss
from rkhs.operators import Operator
from rkhs.problem import Problem


@dataclass
class State:
    """Where a solver stands: arrays and counters, nothing else.

    Attributes
    ----------
    coef : array of shape (features or rows, outputs)
    objective : float
        At `coef`, or the solver's estimate of it.
    converged : bool
    note : str
        What a user should know, such as a step size that was cut; empty if nothing.
    details : dict
        What else this epoch's row of the history holds.
    deadline : float
        Time (of `time.perf_counter`) after which a step of many iterations may end early.
    """

    coef: np.ndarray
    objective: float = np.nan
    converged: bool = False
    note: str = ""
    details: dict = field(default_factory=dict, kw_only=True)
    deadline: float = field(default=np.inf, kw_only=True)


class Solver(BaseEstimator):
    """A method of minimisation: parameters only, the same object for any problem.

    `init` makes a state, each `step` one epoch of progress, `finish` the fitted function.
    What a solver needs of loss and features it declares below; the rest of the library
    asks `check`, and never looks at a solver's class.

    Attributes
    ----------
    needs : {"any", "smooth", "quadratic"}
        Which losses it can minimise.
    needs_features : bool
        False if it also works in the kernel's whole space.
    whole_space : bool
        Whether features="auto" means none of them, for any number of rows.
    grows : bool
        Whether it can go on in the whole space when rows are added.
    needs_dense : bool
        Whether it works on dense rows of features, which random binning has not.
    takes_rows : bool
        Whether it can have an unknown for each row instead of each feature.
    grows_features : bool
        Whether it draws the features itself, block by block, which random Fourier features allow.
    streams : bool
        Whether it can go on with rows that come later, and has `absorb` for them.
    default_features : str
        What ``features="auto"`` means where features are needed.
    penalties : tuple of str
        Of "l2" and "l1", those that it honours.
    needs_alpha : bool
        Whether the penalty must be positive.
    max_epochs : int
        Steps that are enough for most problems.
    dtype : type
        Precision of tiles and coefficients unless the user asks for another.
    seeks_tolerance : bool
        Whether ending before convergence deserves a warning.
    reads_once : bool
        Whether an epoch reads every tile of the operator once.
    """

    needs = "any"
    needs_features = False
    whole_space = False
    grows = False
    needs_dense = False
    takes_rows = False
    grows_features = False
    streams = False
    default_features = "nystrom"
    penalties: tuple[str, ...] = ("l2",)
    needs_alpha = False
    max_epochs = 100
    dtype: type = np.float32
    seeks_tolerance = True
    reads_once = False

    def accepts(self, loss: Loss) -> bool:
        """Whether the solver can minimise this loss."""
        return {
            "any": True,
            "smooth": loss.curvature is not None,
            "quadratic": loss.quadratic,
        }[self.needs]

    def check(self, loss: Loss, features, alpha: float, penalty: str = "l2") -> None:
        """Refuse a pairing that makes no sense, saying what would work."""
        name = type(self).__name__
        has_features = features is not None
        if not self.accepts(loss):
            task = loss.tasks[0]
            fitting = [
                repr(key)
                for key, kind in LOSSES.items()
                if self.accepts(kind()) and task in kind.tasks
            ]
            others = 'solver="newton_cg"'
            if loss.curvature is None:
                others = 'solver="sgd"' if has_features else 'solver="exact"'
            losses = f"loss={' or '.join(fitting)}" if fitting else "another loss"
            raise ValueError(
                f"{name} needs a {self.needs} loss, and {loss!r} is not. Use {losses}, or {others}."
            )
        if self.needs_features and not has_features:
            raise ValueError(
                f"{name} works on features, and features=None asks for the kernel's whole "
                'space. Use features="nystrom" or "random_fourier", or solver="exact".'
            )
        if self.needs_dense and has_features and features.is_sparse:
            raise ValueError(
                f"{name} works on dense features, and {features!r} has sparse ones. Use "
                'solver="conjugate_gradient" for the squared error, "newton_cg" for another '
                'smooth loss (such as "squared_hinge"), or features="random_fourier".'
            )
        if self.grows_features and not features.regenerates:
            raise ValueError(
                f"{name} draws new features as it goes, and {features!r} can't. Use "
                'features="random_fourier".'
            )
        if penalty not in self.penalties:
            raise ValueError(
                f"{name} has no penalty={penalty!r}. Use "
                + ('solver="coordinate_descent".' if penalty == "l1" else 'penalty="l1".')
            )
        if self.needs_alpha and not alpha > 0:
            raise ValueError(f"{name} needs alpha > 0, got {alpha!r}.")

    def represent(self, features):
        """What is to represent f where the user gave `features` (a name, a map, None)."""
        return features

    def memory(self, operator: Operator, n_outputs: int, has_features: bool, budget: int) -> int:
        """Bytes that the solver's own arrays take if it may use `budget`, tiles apart."""
        return 8 * 6 * sum(operator.shape) * n_outputs

    def init(self, problem: Problem) -> State:
        raise NotImplementedError

    def step(self, problem: Problem, state: State) -> State:
        raise NotImplementedError

    def finish(self, problem: Problem, state: State) -> Expansion:
        return problem.expansion(state.coef)


def is_integer(value) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_number(value) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
