"""The matrix that solver tests run over: losses x spaces, on problems with an exact answer."""

import numpy as np

from rkhs.data import RowSource
from rkhs.driver import run
from rkhs.features import Nystrom, RandomFourier
from rkhs.kernels import Gaussian
from rkhs.losses import (
    AbsoluteError,
    EpsilonInsensitive,
    Hinge,
    Huber,
    LogLoss,
    Pinball,
    Softmax,
    SquaredError,
    SquaredHinge,
)
from rkhs.operators import KernelOperator
from rkhs.problem import Problem
from rkhs.solvers import SGD, SVRG, ConjugateGradient, EigenPro, Exact, NewtonCG, Pegasos

LOSSES = [
    SquaredError(),
    Huber(delta=0.3),
    LogLoss(),
    SquaredHinge(),
    Softmax(),
    Hinge(),
    EpsilonInsensitive(epsilon=0.1),
    AbsoluteError(),
    Pinball(quantile=0.8),
]
SPACES = ["kernel", "random_fourier", "nystrom"]
DETERMINISTIC = [
    ConjugateGradient(),
    ConjugateGradient(preconditioner=None),
    NewtonCG(),
    NewtonCG(preconditioner=None),
    EigenPro(tol=1e-7, batch_size=16),
]
STOCHASTIC = [
    SGD(tol=0.0, batch_size=8),
    Pegasos(tol=0.0, batch_size=8),
    SVRG(tol=0.0, batch_size=8),
]
KERNEL = Gaussian(length_scale=1.5)
N_ROWS = 120


def table(n_rows=N_ROWS, seed=0):
    """Rows, a numeric target, and three classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    signal = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 - 1
    y = signal + 0.1 * rng.normal(size=n_rows)
    return X, y, np.digitize(signal, [-0.5, 0.5])


def make_problem(loss, space, *, weighted=True, alpha=1e-2, dtype=np.float32, seed=0):
    """A small problem of a loss in the kernel's space or on features."""
    X, y, codes = table()
    if "regression" in loss.tasks:
        target = np.stack([y, -0.5 * y**2], axis=1)
    else:
        target = loss.encode(codes, 3)
    weight = np.ones(len(X))
    if weighted:
        weight = np.random.default_rng(seed + 1).integers(0, 4, size=len(X)).astype(float)
    source = RowSource(X)
    if space == "kernel":
        operator = KernelOperator(KERNEL, source, source, dtype, keep_bytes=2**30)
        return problem_on(loss, KERNEL, None, alpha, source, target, weight, operator)
    features = {
        "random_fourier": RandomFourier(80, KERNEL, random_state=seed),
        "nystrom": Nystrom(40, KERNEL, random_state=seed),
    }[space].fit_rows(source, weight, dtype)
    operator = features.operator(source, dtype, keep_bytes=2**30)
    return problem_on(loss, KERNEL, features, alpha, source, target, weight, operator)


def problem_on(loss, kernel, features, alpha, source, target, weight, operator, **more):
    """A problem whose weights are made to have the sum 1."""
    weight = weight / weight.sum()
    return Problem(kernel, loss, features, alpha, source, target, weight, operator, **more)


def exact_objective(problem):
    """The least value of a problem, and the coefficients that reach it."""
    fit = run(problem, Exact())
    return fit.state.objective, fit.state.coef
