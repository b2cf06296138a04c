"""One step of a doubly stochastic method: a batch of rows, a block of features, a rule."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import linalg

from rkhs.compute import blas_for, run_tiles, scratch, slices, tile_map, transposed_times
from rkhs.data import RowSource
from rkhs.problem import Problem
from rkhs.solvers._preconditioner import largest_eigenvalue

_ROWS = 512
_COLUMNS = 128
_DAMPING = 1.0
_SAMPLED = 1024  # rows that a block's largest eigenvalue is estimated from
_FOLDS = 4  # parts of a batch whose gradients tell signal from noise
_LONGEST = 8.0  # of a Newton step: curvatures of the loss are bounds, which may be loose
_HALVINGS = 12
_DOUBLINGS = 60
_TINY = 1e-12


@dataclass
class Batch:
    """Rows of one iteration, and what is known of the function there."""

    problem: Problem
    source: RowSource
    target: np.ndarray
    share: np.ndarray  # weights with mean about 1
    population: float = np.inf  # rows that the batch was drawn from; no end for a stream
    count: int = 1  # of the iteration
    f: np.ndarray = field(init=False)
    slope: np.ndarray = field(init=False)
    agreement: float = field(init=False, default=1.0)  # share of the step's slope, not noise

    def evaluate(self, pairs, scale) -> None:
        """The function with these coefficients of cosines and sines, and the loss's slope."""
        problem = self.problem
        self.f = np.zeros(self.target.shape)
        if len(pairs):
            features = self.features.sized(2 * len(pairs))
            coef = (scale * features.from_pairs(pairs)).astype(problem.operator.dtype)
            self.f += features.evaluate(self.source, coef, problem.n_jobs)
        self.move_to(self.f)

    def move_to(self, f) -> None:
        """Take other values of the function."""
        self.f = f
        self.slope = self.share[:, None] * self.problem.loss.derivative(f, self.target)

    @property
    def features(self) -> Any:
        """The map, which regenerates its blocks."""
        return self.problem.features

    @property
    def variance(self) -> float:
        """The kernel's value at distance zero."""
        return float(self.features.kernel_.diag(np.zeros((1, self.source.shape[1])))[0])

    @property
    def mean_slope(self) -> np.ndarray:
        return self.slope.mean(axis=0)

    def loss(self, f) -> float:
        return self.problem.loss.value(f, self.target, self.share)

    def step(self, pairs, frequencies, rule, length, automatic):
        """Direction of a block's coefficients, and how far to go against it.

        `pairs` are those of the whole model.
        """
        problem = self.problem
        n_rows, width = len(self.f), frequencies.stop - frequencies.start
        value = np.sqrt(self.variance / width)  # of a block that stands for the kernel alone
        Z = scratch("block", (n_rows, 2 * width), problem.operator.dtype)
        slope = (self.slope / n_rows).astype(Z.dtype)

        ends = frequencies.start, frequencies.stop

        def write(rows):
            self.features.write_pairs(self.source[rows], *ends, Z[rows], value)
            return [transposed_times(Z[fold], slope[fold]) for fold in folds_of(rows)]

        tiles = slices(n_rows, _ROWS)
        folds = np.zeros((_FOLDS, 2 * width, slope.shape[1]))
        for parts in tile_map(write, tiles, problem.n_jobs):
            for fold, part in zip(folds, parts, strict=True):
                fold += part
        # A block among others: its norm counts as often as there are blocks.
        penalty = len(pairs) / width * problem.alpha if rule.penalised else 0.0
        old = pairs[frequencies].transpose(1, 0, 2).reshape(2 * width, -1) / value
        shares = fold_shares(tiles)
        folds += shares[:, None, None] * (penalty * old)
        # All folds at once: (features, folds x outputs).
        gradients = folds.transpose(1, 0, 2).reshape(2 * width, -1)
        directions = rule.preconditioned(self, Z, gradients, penalty)
        direction = directions.reshape(2 * width, _FOLDS, -1).sum(axis=1)
        total = float(np.vdot(folds.sum(axis=0), direction))
        noise = self.noise(total, float(np.vdot(gradients, directions)), shares)
        self.agreement = 1.0 - noise / total if total > 0 else 1.0
        moved = np.empty(self.f.shape)
        narrow = direction.astype(Z.dtype)

        def times(rows):
            moved[rows] = Z[rows] @ narrow

        run_tiles(times, tiles, problem.n_jobs)
        line = (
            penalty * float(np.vdot(old, direction)),
            penalty * float(np.vdot(direction, direction)),
        )
        length = rule.limited(self, moved, line, length, automatic, noise)
        return value * direction.reshape(2, width, -1).transpose(1, 0, 2), length

    def shrink(self, pairs, most) -> float:
        """The part of the function, at most `most`, without which the objective is least.

        `pairs` are its coefficients, with zeros for the block that joins.
        """
        norm = self.problem.alpha * len(pairs) / self.variance * float(np.vdot(pairs, pairs))
        return self.search(self.f, (norm, norm), most, most)

    def noise(self, total, own, shares) -> float:
        """How much of the slope `total` along a step these rows alone have.

        Products of different folds have the population's slope as their mean; those of a fold
        with itself, whose sum is `own`, have noise as well. Of a finite table, these rows are
        a part themselves.
        """
        crossed = 1.0 - float(shares @ shares)
        if not crossed > 0:
            return 0.0  # one row: nothing to compare
        others = max(0.0, 1.0 - len(self.f) / self.population)
        return others * max(0.0, total - (total - own) / crossed)

    def probe(self, width, n_rows):
        """Cosines and sines of the first frequencies on a few rows, as the kernel weighs them."""
        few = self.source[:n_rows]
        kernel = self.features.kernel_
        pairs = np.empty((len(few), 2 * width))
        self.features.write_pairs(few, 0, width, pairs)
        return few, pairs * np.sqrt(kernel.diag(few.astype(np.float64))[:, None] / width)

    def feature_variance(self, width, n_rows) -> float:
        """Variance of a block's products around the kernel's values, mean over rows."""
        few, Z = self.probe(width, n_rows)
        exact = self.features.kernel_(few.astype(np.float64))
        # (row, row', frequency): each frequency alone estimates the kernel, a block is their mean.
        cosine, sine = Z[:, None, :width], Z[:, None, width:]
        products = width * (cosine * Z[None, :, :width] + sine * Z[None, :, width:])
        return float((products - exact[:, :, None]).var(axis=1).mean()) / width

    def search(self, moved, line, length, longest, noise=0.0) -> float:
        """A step along ``-moved`` that does not go beyond the least objective on these rows.

        About `length` is looked at first, and nothing beyond `longest`. `line` holds slope and
        curvature of the penalty along the step, `noise` a slope that these rows alone have.
        """

        def rises(step):
            slope = self.problem.loss.derivative(self.f - step * moved, self.target)
            along = float(np.vdot(self.share[:, None] * slope, moved)) / len(moved)
            return not along + line[0] - step * line[1] >= noise

        low, high = 0.0, length
        for _ in range(_DOUBLINGS):
            if rises(high):
                break
            low, high = high, 2.0 * high
            if low >= longest:
                return longest
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if rises(middle) else (middle, high)
        return low


class Rule:
    """How a block's gradient becomes a step; no state of its own.

    Attributes
    ----------
    penalised : bool
        Whether the penalty is part of the step, rather than shrinking the whole function.
    """

    penalised = False

    @staticmethod
    def first_length(batch: Batch, width: int) -> float:
        """Length of the first step, for blocks of so many frequencies."""
        raise NotImplementedError

    @staticmethod
    def length(step_size, alpha: float, first: float, count: int) -> float:
        """Length of step `count`, from 1 on."""
        raise NotImplementedError

    @staticmethod
    def longest(length: float, count: int) -> float:
        """The longest step that may be taken in place of this one, the `count`-th."""
        raise NotImplementedError

    @staticmethod
    def preconditioned(batch: Batch, Z, gradients, penalty: float) -> np.ndarray:
        """The directions to go against, one for each column."""
        raise NotImplementedError

    @staticmethod
    def limited(batch: Batch, moved, line, length: float, automatic: bool, noise: float) -> float:
        """The length that the batch's own loss allows.

        `noise` is the part of its slope that these rows alone have.
        """
        raise NotImplementedError


class Gradient(Rule):
    """Algorithm 1: the gradient itself, with steps theta / (t + delay).

    The penalty shrinks the whole function.
    """

    @staticmethod
    def first_length(batch, width) -> float:
        """What the curvature of the batch allows."""
        loss = batch.problem.loss
        top = 1.1 * largest_eigenvalue(batch.probe(width, _SAMPLED)[1])
        if loss.curvature is None:
            # Slopes of size one whatever the distance: steps follow the targets.
            size = _target_size(batch)
            return size / (top + batch.problem.alpha * size)
        return 1.0 / (loss.curvature * top + batch.problem.alpha)

    @staticmethod
    def length(step_size, alpha, first, count) -> float:
        if step_size != "auto":
            return step_size / count
        return 1.0 / (1.0 / first + 0.5 * alpha * count)

    @staticmethod
    def longest(length, count) -> float:
        # A length that follows the batch's own slopes moves the point at which mean steps are
        # zero. Its square must fall like 1/t, as the rate does.
        return length * (1.0 + count**-0.5)

    @staticmethod
    def preconditioned(batch, Z, gradients, penalty):
        return gradients

    @staticmethod
    def limited(batch, moved, line, length, automatic, noise) -> float:
        # With a kink, a step may have to raise the loss of its own rows for the sum to fall.
        smooth = batch.problem.loss.curvature is not None
        return batch.search(moved, line, length, length) if automatic and smooth else length


class Newton(Rule):
    """The block's covariance on the batch, weighted by the curvature, undone.

    The penalty is the block's own, so that going through the blocks again and again leads to
    the minimum over all of them.
    """

    penalised = True

    @staticmethod
    def first_length(batch, width) -> float:
        return 1.0

    @staticmethod
    def length(step_size, alpha, first, count) -> float:
        return first if step_size == "auto" else float(step_size)

    @staticmethod
    def longest(length, count) -> float:
        return np.inf  # the search on the batch limits it

    @staticmethod
    def preconditioned(batch, Z, gradients, penalty):
        weight = batch.share * row_curvature(batch.problem.loss, batch.f, batch.target)
        total = float(weight.sum())
        if not total > 0:
            return gradients
        root = np.sqrt(weight / len(weight)).astype(Z.dtype)
        A = scratch("weighted block", Z.shape, Z.dtype)
        size = Z.shape[1]
        H = np.zeros((size, size))

        def scale(rows):
            np.multiply(Z[rows], root[rows, None], out=A[rows])

        def products(columns):
            H[columns.start :, columns] = A[:, columns.start :].T @ A[:, columns]

        n_jobs = batch.problem.n_jobs
        for function, tiles in (
            (scale, slices(len(Z), _ROWS)),
            (products, slices(size, _COLUMNS)),
        ):
            run_tiles(function, tiles, n_jobs)
        # Of so many rows as the weights are worth, a share of the covariance is noise.
        effective = total**2 / float(weight @ weight)
        noise = _DAMPING * size / effective * float(np.trace(H)) / size
        H[np.diag_indices(size)] += penalty + noise
        with blas_for(size):
            return linalg.cho_solve(linalg.cho_factor(H, lower=True, overwrite_a=True), gradients)

    @staticmethod
    def limited(batch, moved, line, length, automatic, noise) -> float:
        kinked = batch.problem.loss.curvature is None
        if kinked or not automatic:
            longest = np.inf if kinked and automatic else length
            return batch.search(moved, line, length, longest)
        # Longer than usual if rows that the direction did not see would go along. Shorter for
        # the noise, but little at first: haste is worth some noise while there is much to learn.
        far = batch.search(moved, line, length, _LONGEST * length, noise)
        patience = 1.0 - batch.count**-0.5
        near = batch.search(moved, line, length, length, patience * noise)
        return max(far, near)


def folds_of(rows: slice) -> list[slice]:
    """A tile's rows in as many parts as there are folds, some empty if there are few rows."""
    cuts = [rows.start + (rows.stop - rows.start) * k // _FOLDS for k in range(_FOLDS + 1)]
    return list(map(slice, cuts[:-1], cuts[1:]))


def fold_shares(tiles: list[slice]) -> np.ndarray:
    """The share of all rows that each fold has."""
    sizes = np.array([[fold.stop - fold.start for fold in folds_of(rows)] for rows in tiles])
    return sizes.sum(axis=0) / sizes.sum()


def _target_size(batch) -> float:
    return max(float(np.abs(batch.target).max(axis=1).mean()), _TINY)


def row_curvature(loss, f, target) -> np.ndarray:
    """A bound of the loss's second derivative at each row; 1 for a loss with a kink."""
    if loss.curvature is None:
        return np.ones(len(f))
    largest = loss.second_derivative(f, target).max(axis=1)
    if loss.coupled:
        largest = 2.0 * largest  # Gershgorin: the row of a Hessian that sums to zero
    return np.clip(largest, 1e-6 * loss.curvature, loss.curvature)


STEPS: dict[str, type[Rule]] = {"newton": Newton, "gradient": Gradient}
