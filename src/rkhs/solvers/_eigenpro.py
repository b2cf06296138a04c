"""EigenPro: stochastic gradients with the leading eigendirections flattened."""

import numbers
from dataclasses import dataclass, replace

import numpy as np

from rkhs.compute import core_count, single_threaded_blas
from rkhs.features import Nystrom
from rkhs.solvers._base import Solver, State
from rkhs.solvers._eigen_spaces import TEST_ROWS, FeatureSpace, Plan, WholeSpace

_WORK = 1e10  # operations of a step that make its overhead small
_BATCH = (1024, 2048)
_LEAST_STEPS = 8  # an epoch has, unless batches become tiny
_SUBSAMPLE = (2000, 12_000)
# Operations of a kernel value next to which a sample of that size costs little, and the share of
# the sample that remains where values are cheaper.
_DEAR_ENTRY, _LEAST_SAMPLED = 300, 0.4
# What gives way, and to which size, where memory is short.
_SHRUNK = (("subsample", 1000), ("batch_size", 256), ("subsample", 100), ("batch_size", 32))
_LARGEST_RANK = 500
_LONGEST_RISE = 4.0


@dataclass
class _EigenState(State):
    epoch: int = 0
    rate: float = 0.0
    first_objective: float = np.inf
    space: WholeSpace | FeatureSpace = None  # type: ignore[assignment]


class EigenPro(Solver):
    r"""Stochastic gradients with the leading eigendirections flattened, for smooth losses.

    A smooth kernel's spectrum falls so fast that gradient descent reaches few functions in any
    sensible time. EigenPro [ma2017]_ finds the leading eigenpairs :math:`(\mu_i, e_i)` of a
    sample of rows once, and applies :math:`P = I - \sum_{i \le k} (1 - \tau \mu_{k+1} /
    \mu_i) e_i \otimes e_i` to the gradient of every batch: the same solution, in far fewer
    epochs. In the whole space (``features=None``, the default here) every row is a centre, or
    `centers` of them are; with features it is the linear iteration on those.

    Rank and step come from the spectrum, as in [ma2019]_: batches that fill the machine, the
    rank whose critical batch is several times as large, the step from what batches of rows
    outside the sample show. In the whole space the penalty acts as part of each row's
    residual, and no step is longer than the one at which the distance to the solution would
    grow. On features each row's last gradient is remembered [defazio2014]_, so that batches
    agree at the optimum. Losses other than the squared error take the same preconditioner
    and a step divided by the bound of their second derivative; that is this library's choice,
    not the paper's.

    Parameters
    ----------
    rank : int or "auto", default="auto"
        Directions that are flattened; 0 is plain stochastic gradient descent.
    subsample : int or "auto", default="auto"
        Rows that the eigenpairs are computed from; "auto" is a tenth, from 2,000 to 12,000,
        and down to two fifths of that where columns are few and kernel values cheap.
    damping : float, default=1.0
        The factor :math:`\tau \le 1`: flattened directions move that much slower, in case
        the sample's eigenvectors are poor ones.
    batch_size : int or "auto", default="auto"
    centers : int or array of shape (centres, columns), optional
        Represent f by this many centres, drawn from the rows, or by these, instead of all rows:
        what ``features=Nystrom(...)`` does. The gradient is projected on their span, and only
        centres and one batch of rows need to be in memory.
    tol : float, default=1e-4
        Stop when the training objective changes by less than this share over an epoch. It is
        measured on each batch before its step.

    Notes
    -----
    The first row of `history_` also has "rank", "subsample", "batch_size", "spectrum" (the
    leading eigenvalues of the sample's second moment), "critical_batch" and
    "predicted_acceleration" (the step over that of rank 0 at the same batch size); every row
    has "step".

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs import KernelClassifier
    >>> X = np.random.default_rng(0).normal(size=(600, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> model = KernelClassifier("exponential", "squared_error", solver="eigenpro", alpha=0.0,
    ...                          random_state=0)
    >>> model.fit(X, y).score(X, y) > 0.97
    True
    >>> model.history_[0]["predicted_acceleration"] > 5
    True
    """

    needs = "smooth"
    needs_dense = True
    whole_space = True
    max_epochs = 20
    seeks_tolerance = False
    reads_once = True

    def __init__(
        self,
        rank="auto",
        subsample="auto",
        damping=1.0,
        batch_size="auto",
        centers=None,
        tol=1e-4,
    ):
        self.rank = rank
        self.subsample = subsample
        self.damping = damping
        self.batch_size = batch_size
        self.centers = centers
        self.tol = tol

    @property
    def grows(self):  # type: ignore[override]
        return self.centers is None

    def represent(self, features):
        if self.centers is None:
            return features
        drawn = np.ndim(self.centers) == 0
        if drawn and not _is_whole(self.centers, 1):
            raise ValueError(
                "centers must be a positive integer, an array of shape (centres, columns) or "
                f"None, got {self.centers!r}."
            )
        if features is None or (isinstance(features, str) and features == "auto"):
            return Nystrom(self.centers) if drawn else Nystrom(centers=self.centers)
        given = repr(self.centers) if drawn else "an array"
        raise ValueError(f"centers={given} and features={features!r} were both given. Give one.")

    def check(self, loss, features, alpha, penalty="l2"):
        super().check(loss, features, alpha, penalty)
        for name, least in (("rank", 0), ("subsample", 1), ("batch_size", 1)):
            value = getattr(self, name)
            if not (isinstance(value, str) and value == "auto") and not _is_whole(value, least):
                raise ValueError(f'{name} must be "auto" or an integer >= {least}, got {value!r}.')
        if not (isinstance(self.damping, int | float) and 0 < self.damping <= 1):
            raise ValueError(f"damping must be a number in (0, 1], got {self.damping!r}.")
        if not (isinstance(self.tol, int | float) and self.tol >= 0):
            raise ValueError(f"tol must be a number >= 0, got {self.tol!r}.")

    def plan(self, n_rows: int, operator, n_outputs: int, has_features: bool, budget: int) -> Plan:
        """Sizes for this many rows of an operator, within `budget` bytes."""
        n_columns = operator.shape[1]
        entry = 2 * operator.entry_work + 2 * n_outputs + 30  # operations, roughly
        batch_size = self.batch_size
        if batch_size == "auto":
            batch_size = int(np.clip(_WORK / (n_columns * entry), *_BATCH))
            batch_size = min(batch_size, max(32, n_rows // _LEAST_STEPS))
        batch_size = int(min(batch_size, n_rows))
        subsample = self.subsample
        if subsample == "auto":
            subsample = np.clip(n_rows // 10, *_SUBSAMPLE)
            if not has_features:  # where kernel values are cheap, steps must be
                subsample *= np.clip(entry / _DEAR_ENTRY, _LEAST_SAMPLED, 1.0)
            subsample = int(subsample)
        plan = self._with_rank(batch_size, min(subsample, n_rows), n_columns)
        for name, least in _SHRUNK:
            while getattr(self, name) == "auto" and getattr(plan, name) > least:
                if self._bytes(plan, operator, has_features) <= budget:
                    return plan
                smaller = {name: max(getattr(plan, name) * 3 // 4, least)}
                sizes = {"batch_size": plan.batch_size, "subsample": plan.subsample, **smaller}
                plan = self._with_rank(**sizes, n_columns=n_columns)
        return plan

    def _with_rank(self, batch_size, subsample, n_columns):
        most = max(0, min(subsample, n_columns) - 1)
        rank = None if self.rank == "auto" else min(int(self.rank), most)
        largest = min(batch_size, max(subsample // 4, 1), _LARGEST_RANK, most)
        largest = largest if rank is None else rank
        return Plan(batch_size, subsample, largest, rank, float(self.damping))

    def _bytes(self, plan, operator, has_features):
        """Memory of the preconditioner and of the steps."""
        test = max(plan.batch_size, TEST_ROWS)
        numbers = 3 * plan.subsample * (plan.subsample + plan.largest_rank)
        numbers += test * (2 * test + plan.subsample)
        if has_features:
            numbers += operator.shape[1] * (2 * plan.subsample + plan.largest_rank + test)
        else:
            numbers += core_count(operator.n_jobs) * 512 * (plan.subsample + plan.batch_size)
        return operator.dtype.itemsize * numbers

    def memory(self, operator, n_outputs, has_features, budget):
        vectors = super().memory(operator, n_outputs, has_features, budget)
        plan = self.plan(operator.shape[0], operator, n_outputs, has_features, budget)
        return vectors + self._bytes(plan, operator, has_features)

    def init(self, problem):
        has_features = problem.features is not None
        n_rows = int(np.count_nonzero(problem.weight))
        plan = self.plan(
            n_rows, problem.operator, problem.target.shape[1], has_features, problem.memory
        )
        space = (FeatureSpace if has_features else WholeSpace)(problem, plan)
        coef = problem.starting_coef()
        zero = np.zeros_like(problem.target)
        first = problem.loss.value(zero, problem.target, problem.weight)
        details = {**space.details, "step": space.rate}
        state = _EigenState(coef, first, details=details)
        state.rate = space.rate
        state.first_objective, state.space = first, space
        return state

    def step(self, problem, state):
        # Products of one batch are too small to share: waiting threads would cost more.
        with single_threaded_blas:
            return self._epoch(state)

    def _epoch(self, state):
        space = state.space
        coef = state.coef.copy()
        objective = 0.0
        for batch in space.batches(state.epoch):
            objective += space.advance(coef, batch, state.rate)
            if not np.isfinite(objective):
                break
        details = {"step": state.rate} if state.epoch else state.details
        if not objective <= _LONGEST_RISE * max(state.first_objective, state.objective):
            space.forget()
            return replace(
                state,
                rate=state.rate / 4,
                epoch=state.epoch + 1,
                details=details,
                note="The step size was cut because the loss rose.",
            )
        change = abs(state.objective - objective)
        rose = state.epoch > 0 and objective > state.objective
        return replace(
            state,
            coef=coef,
            objective=objective,
            converged=state.epoch > 0 and change <= self.tol * abs(objective),
            epoch=state.epoch + 1,
            rate=space.shortened(state.rate) if rose else state.rate,
            details=details,
        )


def _is_whole(value, least):
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return whole and value >= least
