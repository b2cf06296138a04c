"""Stochastic gradients: averaged SGD, Pegasos, and SVRG."""

from dataclasses import dataclass, field

import numpy as np

from rkhs.compute import single_threaded_blas, uniform
from rkhs.solvers import _preconditioner
from rkhs.solvers._base import Solver, State
from rkhs.solvers._eigenpro import EigenPro

_ORDER_STREAM = 1201
_CHUNK = 8192
_AVERAGING = 8  # weight of iterate t in the average grows like t^8: the tail counts


@dataclass
class _StochasticState(State):
    iterate: np.ndarray = field(default_factory=lambda: np.empty(0))
    count: int = 0  # steps taken
    epoch: int = 0
    rate: float = 0.0  # first step size
    reach: float = np.inf  # radius of the ball that holds the optimum
    first_loss: float = np.inf


class _Stochastic(Solver):
    """Batches of rows in random order, shrinking steps, an average of the iterates."""

    needs_features = True
    needs_dense = True
    max_epochs = 50
    seeks_tolerance = False

    def __init__(self, tol=1e-4, batch_size=64):
        self.tol = tol
        self.batch_size = batch_size

    def memory(self, operator, n_outputs, has_features, budget):
        vectors = super().memory(operator, n_outputs, has_features, budget)
        n_rows, n_features = operator.shape
        return vectors + 16 * min(_CHUNK, n_rows) * n_features

    def init(self, problem):
        coef = problem.starting_coef()
        zero = np.zeros_like(problem.target)
        first_loss = problem.loss.value(zero, problem.target, problem.weight)
        reach = np.sqrt(2.0 * first_loss / problem.alpha) if problem.alpha > 0 else np.inf
        rate = self._first_rate(problem)
        return _StochasticState(
            coef, first_loss, False, "", coef.copy(), 0, 0, rate, reach, first_loss
        )

    def step(self, problem, state):
        # Products of one batch are too small to share: waiting threads would cost more.
        with single_threaded_blas:
            next_state = self._epoch(problem, state)
        if self._diverged(state, next_state):
            # Too long a step for these rows: back to where the epoch began, with shorter ones.
            return _StochasticState(
                **{
                    **vars(state),
                    "iterate": state.coef.copy(),
                    "rate": state.rate / 4,
                    "epoch": state.epoch + 1,
                    "note": "The step size was cut because the loss rose.",
                }
            )
        change = abs(state.objective - next_state.objective)
        next_state.converged = state.epoch > 0 and change <= self.tol * abs(next_state.objective)
        return next_state

    def _diverged(self, state, next_state):
        return not np.isfinite(next_state.objective)

    def _epoch(self, problem, state):
        n_rows = len(problem.target)
        keys = uniform(problem.seed, _ORDER_STREAM, state.epoch, (n_rows,))
        order = np.argsort(keys, kind="stable")
        w, average, count = state.iterate.copy(), state.coef.copy(), state.count
        mean_weight = 1.0 / n_rows
        total = 0.0
        for start in range(0, n_rows, _CHUNK):
            chunk = order[start : start + _CHUNK]
            Z = problem.operator.take(chunk)
            for first in range(0, len(chunk), self.batch_size):
                batch = slice(first, first + self.batch_size)
                rows = chunk[batch]
                z, t = Z[batch], problem.target[rows]
                share = (problem.weight[rows] / (mean_weight * len(rows)))[:, None]
                f = (z @ w.astype(z.dtype)).astype(np.float64)
                total += float(problem.weight[rows] @ problem.loss.elementwise(f, t).sum(axis=1))
                slope = (share * problem.loss.derivative(f, t)).astype(z.dtype)
                rate = self._rate(problem, state.rate, count)
                w *= 1.0 - rate * problem.alpha
                w -= rate * (z.T @ slope)
                w = self._project(w, state.reach)
                count += 1
                average += (w - average) * ((_AVERAGING + 1.0) / (count + _AVERAGING))
            if not np.isfinite(total):
                break
        objective = total + 0.5 * problem.alpha * float(np.vdot(average, average))
        return _StochasticState(
            average,
            objective,
            False,
            state.note,
            w,
            count,
            state.epoch + 1,
            state.rate,
            state.reach,
            state.first_loss,
        )

    def _project(self, w, reach):
        return w


def _largest_step(problem, batch_size):
    """Reciprocal of the curvature that a batch can show: its spectrum plus its spread."""
    rows = _preconditioner.weighted_rows(problem, min(1000, len(problem.target)))
    Z = problem.operator.take(rows)
    spread = float(np.einsum("ij,ij->i", Z, Z).max())
    top = _preconditioner.largest_eigenvalue(Z)
    return 1.0 / max(1.1 * top + spread / batch_size, np.finfo(np.float32).tiny)


class SGD(_Stochastic):
    """Averaged stochastic gradient descent on features, for any loss.

    The first step size comes from the spectrum of the features, the loss's curvature and
    the batch; it shrinks like 2 / (alpha t) once the penalty rules. The average of the
    iterates, recent ones weighing most, is returned. [shamir2013]_

    Parameters
    ----------
    tol : float, default=1e-4
        Stop when the training objective changes by less than this share over an epoch.
    batch_size : int, default=64

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs import KernelRegressor
    >>> X = np.linspace(0, 6, 500)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> model = KernelRegressor(loss="huber", features="random_fourier", solver="sgd",
    ...                         random_state=0)
    >>> model.fit(X, y).score(X, y) > 0.9
    True
    """

    def _first_rate(self, problem):
        step = _largest_step(problem, self.batch_size)
        if problem.loss.curvature is not None:
            return step / problem.loss.curvature
        # A kinked loss has slopes of size one whatever the distance: steps follow the targets.
        return step * max(float(np.average(np.abs(problem.target).max(axis=1))), 1e-12)

    def _rate(self, problem, first, count):
        return first / (1.0 + 0.5 * first * problem.alpha * count)

    def _diverged(self, state, next_state):
        return not next_state.objective <= 4 * state.first_loss


class Pegasos(_Stochastic):
    """Steps of 1 / (alpha t) and projection on the ball that holds the optimum.

    The subgradient method of support vector machines [shalev2011]_, for any loss and on
    features; needs alpha > 0. `SGD` is the better choice when alpha is small.

    With ``features=None`` it is kernel SGD for smooth losses and any alpha, with the longest
    constant step that is safe for its batches: `EigenPro` of rank 0, and its baseline.

    Parameters
    ----------
    tol : float, default=1e-4
        Stop when the training objective changes by less than this share over an epoch.
    batch_size : int, default=64

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs import KernelClassifier
    >>> X = np.linspace(-1, 1, 400)[:, None]
    >>> y = np.abs(X[:, 0]) > 0.5
    >>> model = KernelClassifier(loss="hinge", features="nystrom", solver="pegasos",
    ...                          alpha=1e-3, random_state=0)
    >>> model.fit(X, y).score(X, y) > 0.95
    True
    """

    needs_alpha = True

    def _in_whole_space(self):
        return EigenPro(rank=0, batch_size=self.batch_size, tol=self.tol)

    def check(self, loss, features, alpha, penalty="l2"):
        if features is not None:
            super().check(loss, features, alpha, penalty)
            return
        if loss.curvature is None:
            raise ValueError(
                f"Pegasos without features needs a smooth loss, and {loss!r} is not. Use "
                'features="nystrom", or solver="exact".'
            )
        self._in_whole_space().check(loss, features, alpha, penalty)

    def memory(self, operator, n_outputs, has_features, budget):
        if not has_features:
            return self._in_whole_space().memory(operator, n_outputs, has_features, budget)
        return super().memory(operator, n_outputs, has_features, budget)

    def init(self, problem):
        if problem.features is None:
            return self._in_whole_space().init(problem)
        return super().init(problem)

    def step(self, problem, state):
        if problem.features is None:
            return self._in_whole_space().step(problem, state)
        return super().step(problem, state)

    def _first_rate(self, problem):
        return _largest_step(problem, self.batch_size)

    def _rate(self, problem, first, count):
        rate = 1.0 / (problem.alpha * (count + 1))
        curvature = problem.loss.curvature
        return rate if curvature is None else min(rate, first / curvature)

    def _project(self, w, reach):
        norm = float(np.linalg.norm(w))
        return w * (reach / norm) if norm > reach else w


class SVRG(_Stochastic):
    """Stochastic gradients with their variance removed, on features, for a smooth loss.

    Each epoch computes the whole gradient once, at the point where it begins; a batch's step
    then uses the difference of its gradients here and there. Steps need not shrink, and the
    iterates converge at a linear rate. [johnson2013]_

    Parameters
    ----------
    tol : float, default=1e-4
        Stop when the training objective changes by less than this share over an epoch.
    batch_size : int, default=64

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs import KernelRegressor
    >>> X = np.linspace(0, 6, 500)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> model = KernelRegressor(features="random_fourier", solver="svrg", random_state=0)
    >>> model.fit(X, y).score(X, y) > 0.9
    True
    """

    needs = "smooth"

    def _first_rate(self, problem):
        step = _largest_step(problem, self.batch_size) / problem.loss.curvature
        return 0.5 / (1.0 / step + problem.alpha)

    def _diverged(self, state, next_state):
        return not next_state.objective <= state.objective * (1 + 1e-6)

    def _epoch(self, problem, state):
        start = state.coef
        f0 = problem.evaluate(start)
        whole = problem.adjoint(problem.derivative(f0))  # gradient of the loss, not the penalty
        w, n_rows = start.copy(), len(problem.target)
        keys = uniform(problem.seed, _ORDER_STREAM, state.epoch, (n_rows,))
        order = np.argsort(keys, kind="stable")
        for first in range(0, n_rows, _CHUNK):
            chunk = order[first : first + _CHUNK]
            Z = problem.operator.take(chunk)
            for begin in range(0, len(chunk), self.batch_size):
                batch = slice(begin, begin + self.batch_size)
                rows, z = chunk[batch], Z[batch]
                t, share = problem.target[rows], n_rows * problem.weight[rows, None] / len(rows)
                f = (z @ w.astype(z.dtype)).astype(np.float64)
                change = problem.loss.derivative(f, t) - problem.loss.derivative(f0[rows], t)
                step = z.T @ (share * change).astype(z.dtype) + whole + problem.alpha * w
                w -= state.rate * step
        note, objective = state.note, problem.objective(w)
        return _StochasticState(
            w,
            objective,
            False,
            note,
            w,
            state.count + 1,
            state.epoch + 1,
            state.rate,
            state.reach,
            state.first_loss,
        )
