"""What to minimise."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import eigh

from rkhs.compute import absolute_sum, blas_for, dots
from rkhs.data import RowSource
from rkhs.expansion import Expansion, KernelExpansion
from rkhs.features import FeatureMap
from rkhs.kernels import Kernel
from rkhs.losses import Loss
from rkhs.operators import Operator

# Of the system by rows: above it, conjugate gradients by rows are far from their end when those on
# features, whose every step lowers the objective, already predict well.
_LARGEST_SPREAD = 50.0
_SPREAD_ROWS = 300


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise ``sum_i weight_i loss(f(x_i), t_i) + alpha/2 ||f||^2`` over a kernel's space.

    With features, f = Z w and ||f||^2 = w.w. Without, f = K a over all rows and
    ||f||^2 = a.Ka. `adjoint` and `inner` hide the difference from solvers: the
    gradient of the loss is Z.T v in the first case and, in the kernel's own geometry, v
    itself in the second. Features that outnumber the rows need no more unknowns than those: the
    minimiser is w = Z.T a, so that with `by_rows` the problem is the second one, with K = Z Z.T.
    The penalty "l1" is ``alpha sum_j |w_j|`` instead, with features only.

    Parameters
    ----------
    kernel : Kernel
        With numeric length scales.
    loss : Loss
    features : FeatureMap or None
        Fitted; None for the kernel's whole space.
    alpha : float
    source : RowSource
    target : array of shape (rows, outputs)
    weight : array of shape (rows,)
        Non-negative, with sum 1.
    operator : Operator
        Z, or K for the whole space.
    seed : int
    memory : int
        Bytes that a solver may use for itself.
    n_jobs : int or None
    start : array or None
        Coefficients to start from.
    penalty : {"l2", "l1"}
    by_rows : bool
        Whether coefficients are those of rows although there are features.
    """

    kernel: Kernel
    loss: Loss
    features: FeatureMap | None
    alpha: float
    source: RowSource
    target: np.ndarray
    weight: np.ndarray
    operator: Operator
    seed: int = 0
    memory: int = 2**31
    n_jobs: int | None = None
    start: np.ndarray | None = None
    penalty: str = "l2"
    by_rows: bool = False

    @property
    def in_rows(self) -> bool:
        """Whether there is one coefficient a row."""
        return self.features is None or self.by_rows

    def with_fewer_unknowns(self) -> "Problem":
        """The same problem, by rows where that is cheaper; for solvers that take both."""
        # Dense features beside others need a preconditioner: by rows, the squared error has one.
        easy = self.loss.quadratic or not self.operator.parts
        operator = self.operator.precise if self.operator.prefers_rows and easy else None
        if operator is None or self.start is not None or not self.alpha > 0:
            return self
        if self._spread > _LARGEST_SPREAD:
            return self
        return replace(self, operator=operator, by_rows=True)

    @property
    def _spread(self) -> float:
        """Root of the condition number of the system by rows, from a few of them.

        Each stands for as many as there are. The first dense features' part is preconditioned away;
        of the sparse ones' only the diagonal is, and not what rows have in common there that the
        dense features do not tell.
        """
        n_rows = len(self.target)
        rows = np.unique(np.linspace(0, n_rows - 1, _SPREAD_ROWS).astype(np.intp))
        root = np.sqrt(n_rows * self.weight[rows])
        known, common, other = np.zeros((3, len(rows), len(rows)))
        for part in self.operator.parts or (self.operator,):
            Z = part.take(rows)
            if part.is_sparse:
                common += (Z @ Z.T).toarray()
                continue
            with blas_for(Z.shape[1]):
                moment = Z @ Z.T
            if known.any():
                other += moment
            else:
                known += moment
        own = root**2 * np.diagonal(common)
        np.fill_diagonal(common, 0.0)
        ridge = self.alpha * n_rows
        # In units in which what is added to the diagonal is about one, however large it is.
        scale = root * np.sqrt(n_rows / len(rows) / (ridge + own.max()))
        diagonal = np.diag((ridge + own) / (ridge + own.max()))
        known = scale[:, None] * known * scale + diagonal
        rest = scale[:, None] * (common + other) * scale
        with blas_for(len(rows)):
            largest = 1.0 + eigh(rest, known, eigvals_only=True)[-1]
        return float(np.sqrt(max(largest, 1.0) * (1.0 + own.max() / ridge)))

    def with_rows(self, source: RowSource, target, weight, dtype) -> "Problem":
        """The same problem on other rows, with features."""
        assert self.features is not None
        operator = self.features.operator(source, dtype, n_jobs=self.n_jobs)
        return replace(self, source=source, target=target, weight=weight, operator=operator)

    @cached_property
    def coef_shape(self) -> tuple[int, int]:
        return self.operator.shape[0 if self.by_rows else 1], self.target.shape[1]

    def starting_coef(self) -> np.ndarray:
        """Zero, or the coefficients to start from, in float64."""
        if self.start is None:
            # Not `zeros`: pages that several threads touch first keep them waiting for each other.
            return np.full(self.coef_shape, 0.0)
        return np.array(self.start, dtype=np.float64)

    def evaluate(self, coef) -> np.ndarray:
        """f on every row, float64."""
        if self.by_rows:
            return self.operator.outer(coef)
        return self.operator.matmat(coef).astype(np.float64)

    def adjoint(self, v) -> np.ndarray:
        """The element of the space that f -> sum_i v_i f(x_i) stands for."""
        return v if self.in_rows else self.operator.rmatmat(v)

    def inner(self, coef, other, f_other) -> float:
        """The inner product of two functions, given both forms of the second."""
        other = f_other if self.in_rows else other
        return float(dots(coef, other, self.n_jobs).sum())

    def derivative(self, f) -> np.ndarray:
        """Weighted derivative of the loss at f."""
        return self.weight[:, None] * self.loss.derivative(f, self.target)

    def objective(self, coef, f=None) -> float:
        """The value that is minimised."""
        f = self.evaluate(coef) if f is None else f
        return self.loss.value(f, self.target, self.weight) + self.penalty_value(coef, f)

    def penalty_value(self, coef, f) -> float:
        """What the penalty adds to the objective, given both forms of f."""
        if self.penalty == "l1":
            return self.alpha * absolute_sum(coef, self.n_jobs)
        return 0.5 * self.alpha * self.inner(coef, coef, f)

    def feature_coef(self, coef) -> np.ndarray:
        """Coefficients of the features (of the rows, without any), whatever those of f are."""
        return self.operator.rmatmat(coef) if self.by_rows else coef

    def expansion(self, coef) -> Expansion:
        """The fitted function; rows without a coefficient are left out."""
        coef = self.feature_coef(coef)
        coef = np.ascontiguousarray(coef, self.operator.dtype)
        if self.features is not None:
            return self.features.expansion(coef)
        used = np.flatnonzero(np.any(coef != 0, axis=1))
        if not len(used):
            used = np.arange(1)
        return KernelExpansion(
            self.kernel, self.source.floats(used), coef[used], self.operator.dtype.name
        )
