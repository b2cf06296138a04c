r"""EigenPro's iteration, in the kernel's whole space and on features.

Both take steps ``f <- f - step * P g`` with g the sum over a batch of the gradients of its
rows and :math:`P = I - \sum_i (1 - \tau \mu_{k+1} / \mu_i) e_i \otimes e_i`, where (mu_i, e_i)
are leading eigenpairs of the second moment of a sample of rows.

A step cannot move the batch's own values too far: `longest_step` is where a step along the
gradient at hand stops lowering a quadratic with the loss's largest curvature.
"""

from dataclasses import dataclass

import numpy as np

from rkhs.compute import slices, tile_map, transposed_times, uniform
from rkhs.data import RowSource
from rkhs.operators import KernelOperator
from rkhs.solvers import _eigensystem
from rkhs.solvers._preconditioner import weighted_rows

_ORDER_STREAM = 1401
_TEST_STREAM = 1402
TEST_ROWS = 1000
# In reciprocals of the largest eigenvalue of a batch, and of the curvature along its gradient:
# up to 2 of the latter no distance grows.
_STEP, _LONGEST = 1.5, 1.9
_LATER = 0.7  # of a first step, once gradients of earlier epochs are part of one
_SAFE = 0.2  # the same where theory promises convergence, a third of 1 over the eigenvalue
_MARGIN = 8  # the critical batch that the rank aims at, in batches: the sample flatters it
_CORRECTED_ROWS = 512  # of the sample, whose correction is one thread's work
_STEPS_ALONG_FLAT = 3  # steps of an epoch over the margin: flattened directions must still move


@dataclass(frozen=True)
class Plan:
    """Sizes of an iteration, with every "auto" replaced."""

    batch_size: int
    subsample: int
    largest_rank: int
    rank: int | None  # None: the smallest whose critical batch is `batch_size`
    damping: float


class _Space:
    """What both iterations share: rows with a weight, their order, and the report."""

    def __init__(self, problem, plan: Plan):
        self.problem = problem
        self.rows = np.flatnonzero(problem.weight > 0)
        self.n_batches = -(-len(self.rows) // plan.batch_size)
        # What a row's residual is multiplied with: its weight, 1 on average, and the curvature.
        self._share = len(self.rows) * problem.weight
        self._steepness = self._share * problem.loss.curvature

    def forget(self) -> None:
        """Begin anew after an epoch that failed."""

    def shortened(self, rate: float) -> float:
        """The step after an epoch that raised the objective."""
        return rate

    def batches(self, epoch: int) -> list[np.ndarray]:
        """Each row once, in random batches of (almost) equal size; ascending in a batch."""
        order = self._shuffled(_ORDER_STREAM, epoch)
        return [np.sort(part) for part in np.array_split(order, self.n_batches)]

    def _shuffled(self, stream, number):
        keys = uniform(self.problem.seed, stream, number, (len(self.rows),))
        return self.rows[np.argsort(keys, kind="stable")]

    def _test_rows(self, batch_size, sample):
        """Rows to measure the step on: outside the sample, if there are enough."""
        count = max(batch_size, TEST_ROWS)
        rows = self._shuffled(_TEST_STREAM, 0)
        outside = rows[np.isin(rows, sample, invert=True)]
        return (outside if len(outside) >= count else rows)[:count]

    def _sample(self, count):
        """Different rows for the spectrum, and the share of the mean that each stands for."""
        if count >= len(self.rows):
            return self.rows, self.problem.weight[self.rows]
        rows, times = np.unique(weighted_rows(self.problem, count), return_counts=True)
        return rows, times / times.sum()

    def _choose_step(self, plan, values, norms, plain, flattened):
        """Rank is settled: keep the spectrum, and the step for batches of the plan's size."""
        largest = _eigensystem.largest_of_batches(flattened, plan.batch_size)
        unpreconditioned = _eigensystem.largest_of_batches(plain, plan.batch_size)
        self.rate = _STEP / max(largest, float(np.finfo(np.float32).tiny))
        self.details = {
            "rank": self.rank,
            "batch_size": plan.batch_size,
            "subsample": plan.subsample,
            "spectrum": values,
            "critical_batch": float(norms[self.rank] / values[self.rank])
            if values[self.rank] > 0
            else np.inf,
            "predicted_acceleration": unpreconditioned / largest if largest > 0 else 1.0,
        }

    def _choose_rank(self, plan, values, squares, row_norms, dtype):
        useful = _eigensystem.useful_rank(values, dtype)
        norms = _eigensystem.flattened_norms(values, squares[:, :useful], row_norms)
        if plan.rank is None:
            margin = np.clip(plan.damping * self.n_batches / _STEPS_ALONG_FLAT, 1, _MARGIN)
            self.rank = _eigensystem.rank_for_batch(values, norms, margin * plan.batch_size)
        else:
            self.rank = min(plan.rank, useful)
        return norms

    def _gains(self, plan, values):
        """1 - tau mu_{k+1} / mu_i of the directions that are flattened."""
        level = plan.damping * max(values[self.rank], 0.0)
        return 1.0 - level / values[: self.rank]


def longest_step(length: np.ndarray, bend: np.ndarray) -> float:
    """The step at which the worst output's quadratic is no lower than before, nearly."""
    rising = bend > 0
    if not rising.any():
        return np.inf
    return _LONGEST * float((length[rising] / bend[rising]).min())


class WholeSpace(_Space):
    """The iteration over f = sum_j a_j k(x_j, .) with every row a centre.

    The gradient is sum_i (s_i loss'_i + n alpha a_i) k(x_i, .), n times the mean: the penalty is
    a residual of each row as well, and all residuals vanish at the optimum. So for the
    squared error this is the iteration without penalty for the kernel
    ``k(x_i, x_j) + nugget_i [i = j]``, nugget_i = n alpha / s_i, whose spectrum P is made of.
    """

    def __init__(self, problem, plan):
        super().__init__(problem, plan)
        n_rows = len(problem.weight)
        self._ridge = len(self.rows) * problem.alpha
        self._nugget = np.zeros(n_rows)
        self._nugget[self.rows] = self._ridge / self._steepness[self.rows]
        self.sample, share = self._sample(plan.subsample)
        self._place = np.full(n_rows, -1)
        self._place[self.sample] = np.arange(len(self.sample))
        self._set_preconditioner(problem, plan, share)

    def _gram(self, left, right=None):
        """The kernel of some rows with the nugget; `right` are all of `left` by default."""
        problem, dtype = self.problem, self.problem.operator.dtype
        rows, columns = (
            RowSource(problem.source[i]) for i in (left, left if right is None else right)
        )
        operator = KernelOperator(problem.kernel, rows, columns, dtype, n_jobs=problem.n_jobs)
        K = operator.rows(0, len(left))
        if right is None:
            K[np.diag_indices_from(K)] += self._nugget[left].astype(dtype)
        else:
            here = np.flatnonzero(self._place[left] >= 0)
            K[here, self._place[left[here]]] += self._nugget[left[here]].astype(dtype)
        return K

    def _set_preconditioner(self, problem, plan, share):
        dtype = problem.operator.dtype
        root = np.sqrt(share)[:, None].astype(dtype)
        G = self._gram(self.sample)
        diagonal = np.diagonal(G).astype(np.float64)
        G *= root
        G *= root.T
        values, vectors = _eigensystem.top_eigenpairs(G, plan.largest_rank + 1, problem.seed)
        squares = np.square(vectors[:, :-1], dtype=np.float64) * values[:-1] / share[:, None]
        norms = self._choose_rank(plan, values, squares, diagonal, dtype)
        gains = self._gains(plan, values) / values[: self.rank]
        self._gain = gains.astype(dtype)[:, None]
        self._vectors = np.ascontiguousarray(root * vectors[:, : self.rank])
        test = self._test_rows(plan.batch_size, self.sample)
        scale = np.sqrt(self._steepness[test])[:, None].astype(dtype)
        plain = self._gram(test) * scale * scale.T
        inner = scale * (self._gram(test, self.sample) @ self._vectors)
        flattened = plain - (inner * self._gain.T) @ inner.T
        self._choose_step(plan, values, norms, plain, flattened)
        if self.rank == 0:  # nothing to correct
            self.sample, self._vectors = self.sample[:0], self._vectors[:0]
            self._place[...] = -1

    def advance(self, a: np.ndarray, batch: np.ndarray, rate: float) -> float:
        """One step, in place; the batch's part of the objective before it."""
        problem = self.problem
        operator = problem.operator
        target, weight = problem.target[batch], problem.weight[batch]
        share = self._share[batch][:, None]
        own = a[batch]
        residual = np.empty_like(own)

        def visit(part, f, entries):
            f = f.astype(np.float64, copy=False)
            slope = problem.loss.derivative(f, target[part])
            residual[part] = share[part] * slope + self._ridge * own[part]
            loss = weight[part] @ problem.loss.elementwise(f, target[part]).sum(axis=1)
            penalty = 0.5 * problem.alpha * np.vdot(own[part], f)
            narrow = residual[part].astype(operator.dtype)
            # While the tile is in cache: what the part's gradient is on the sample, on the
            # part itself and on the rest of the batch.
            on_rows, on_rest = (transposed_times(values, narrow) for values in entries)
            bend = np.einsum("ij,ij->j", residual[part], on_rest[: len(f)])
            return loss + penalty, on_rows, bend, part.stop, on_rest[len(f) :]

        objective = 0.0
        on_sample, bent = (np.zeros((len(rows), a.shape[1])) for rows in (self.sample, batch))
        bend = np.zeros(a.shape[1])
        for value, on_rows, on_itself, stop, on_rest in operator.visit_rows(
            batch, a, visit, lambda part: (self.sample, batch[part.start :])
        ):
            objective += float(value)
            on_sample += on_rows
            bend += on_itself
            bent[stop:] += on_rest  # of each pair of rows one, as the kernel is symmetric
        if not np.isfinite(objective):
            return objective
        nugget = self._nugget[batch][:, None] * residual
        place = self._place[batch]
        on_sample[place[place >= 0]] += nugget[place >= 0]
        correction = self._correction(on_sample)
        steepness = self._steepness[batch][:, None]
        bend += np.einsum("ij,ij->j", residual, 2.0 * bent + nugget)
        bend -= np.einsum("ij,ij->j", on_sample, correction)
        length = np.square(residual) / steepness
        rate = min(rate, longest_step(length.sum(axis=0), bend))
        a[batch] -= rate * residual
        a[self.sample] += rate * correction
        return objective

    def _correction(self, on_sample):
        vectors, n_jobs = self._vectors, self.problem.n_jobs
        parts = slices(len(vectors), _CORRECTED_ROWS)
        narrow = on_sample.astype(vectors.dtype)
        inner = sum(tile_map(lambda part: vectors[part].T @ narrow[part], parts, n_jobs))
        inner = self._gain * inner
        corrected = tile_map(lambda part: vectors[part] @ inner, parts, n_jobs)
        return np.vstack([np.empty((0, on_sample.shape[1])), *corrected])


class FeatureSpace(_Space):
    """The iteration over the coefficients w of features, f = Z w.

    Residuals do not vanish at the optimum here, and steps along those of a batch alone would
    circle around it. From the second epoch on a row's gradient counts by its change since the
    row was last seen, and the rest of the sum is remembered [defazio2014]_: batches agree at
    the optimum, and it is reached with steps that do not shrink.
    """

    def __init__(self, problem, plan):
        super().__init__(problem, plan)
        self._residual = np.zeros(problem.target.shape)
        self._sum = np.zeros(problem.coef_shape)
        self._seen = 0
        if problem.start is not None:
            f = problem.evaluate(problem.start)
            self._residual = self._share[:, None] * problem.loss.derivative(f, problem.target)
            self._sum = problem.operator.rmatmat(self._residual)
            self._seen = len(self.rows)
        dtype = problem.operator.dtype
        sample, share = self._sample(plan.subsample)
        Z = problem.operator.take(sample)
        norms = np.einsum("ij,ij->i", Z, Z, dtype=np.float64)
        values, directions = _top_directions(Z, share, plan.largest_rank + 1, problem.seed)
        squares = np.square(Z @ directions[:, :-1], dtype=np.float64)
        norms = self._choose_rank(plan, values, squares, norms, dtype)
        self._directions = np.ascontiguousarray(directions[:, : self.rank])
        self._gain = self._gains(plan, values).astype(dtype)[:, None]
        test = self._test_rows(plan.batch_size, sample)
        scale = np.sqrt(self._steepness[test])[:, None].astype(dtype)
        T = scale * problem.operator.take(test)
        plain = T @ T.T
        inner = T @ self._directions
        flattened = plain - (inner * self._gain.T) @ inner.T
        for K in (plain, flattened):
            K[np.diag_indices_from(K)] += dtype.type(plan.batch_size * problem.alpha)
        self._choose_step(plan, values, norms, plain, flattened)

    def forget(self) -> None:
        """Begin anew: the next epoch's steps are plain ones."""
        self._residual[...] = 0.0
        self._sum[...] = 0.0
        self._seen = 0

    def shortened(self, rate):
        return max(0.5 * rate, min(rate, _SAFE / _LATER * self.rate))

    def advance(self, w: np.ndarray, batch: np.ndarray, rate: float) -> float:
        """One step, in place; the batch's part of the objective before it."""
        problem = self.problem
        target, weight = problem.target[batch], problem.weight[batch]
        share = self._share[batch][:, None]
        residual = np.empty((len(batch), w.shape[1]))
        losses = np.empty(len(batch))
        before = self._residual[batch]

        def middle(part, f):
            f = f.astype(np.float64, copy=False)
            losses[part] = problem.loss.elementwise(f, target[part]).sum(axis=1)
            residual[part] = share[part] * problem.loss.derivative(f, target[part])
            return residual[part] - before[part]

        news = problem.operator.gram_rows(batch, w, middle)
        penalty = 0.5 * problem.alpha * float(np.vdot(w, w)) * len(batch) / len(self.rows)
        objective = float(weight @ losses) + penalty
        if not np.isfinite(objective):
            return objective
        ridge = len(batch) * problem.alpha
        gradient = news + ridge * w
        if self._seen >= len(self.rows):
            rate *= _LATER
            gradient += (len(batch) / len(self.rows)) * self._sum
        self._seen += len(batch)
        self._sum += news
        self._residual[batch] = residual
        inner = self._directions.T @ gradient.astype(self._directions.dtype)
        direction = gradient - self._directions @ (self._gain * inner)
        w -= rate * direction
        return objective


def _top_directions(Z, share, count, seed):
    """Leading eigenpairs of Z^T diag(share) Z, through the smaller of the two Gram matrices."""
    root = np.sqrt(share)[:, None].astype(Z.dtype)
    Z = root * Z
    if Z.shape[1] <= len(Z):
        return _eigensystem.top_eigenpairs(Z.T @ Z, count, seed)
    values, vectors = _eigensystem.top_eigenpairs(Z @ Z.T, count, seed)
    directions, _ = np.linalg.qr(Z.T @ vectors)
    return values, directions
