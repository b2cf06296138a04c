"""EigenPro against the exact solution, the paper's formula and its own promises."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import exact_objective, make_problem, table
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score

from rkhs import KernelClassifier, KernelRegressor
from rkhs.data import RowSource
from rkhs.driver import run
from rkhs.features import Nystrom, RandomBinning, RandomFourier
from rkhs.kernels import Cauchy, Exponential, Gaussian, Laplacian, Matern, RationalQuadratic
from rkhs.losses import Hinge, Huber, LogLoss, Softmax, SquaredError, SquaredHinge
from rkhs.operators import KernelOperator
from rkhs.problem import Problem
from rkhs.solvers import EigenPro, Pegasos
from rkhs.solvers._eigensystem import top_eigenpairs

KERNELS = [Gaussian, Exponential, RationalQuadratic, Matern, Laplacian, Cauchy]


def whole_space(
    kernel, X, target, *, loss=None, alpha=0.0, weight=None, dtype=np.float64, keep=2**30
):
    source = RowSource(X)
    weight = np.ones(len(X)) if weight is None else weight
    return Problem(
        kernel=kernel,
        loss=loss or SquaredError(),
        features=None,
        alpha=alpha,
        source=source,
        target=target,
        weight=weight / weight.sum(),
        operator=KernelOperator(kernel, source, source, dtype, keep_bytes=keep),
    )


def epochs_until(problem, solver, objective, most=400):
    """Epochs after which the objective is no larger."""
    state = solver.init(problem)
    for epoch in range(1, most + 1):
        state = solver.step(problem, state)
        if problem.objective(state.coef) <= objective:
            return epoch
    return most + 1


ROUGH = 0.1 * (Laplacian(1.0) + 4.0 * Matern(1.0))


@pytest.mark.parametrize(
    ("kernel", "alpha"),
    [(Exponential(2.0), 0.0), (Exponential(2.0), 1e-3), (ROUGH, 0.0), (3.0 * Gaussian(1.5), 1e-3)],
    ids=str,
)
def test_predicts_what_exact_kernel_regression_predicts(kernel, alpha):
    X, y, _ = table(500)
    fits = [
        KernelRegressor(kernel, features=None, solver=solver, alpha=alpha, max_epochs=300)
        for solver in ("exact", EigenPro(tol=1e-9))
    ]
    exact, ours = (model.fit(X[:400], y[:400]).predict(X) for model in fits)
    assert np.abs(ours - exact).max() < 1e-3


@pytest.mark.parametrize(("alpha", "keep"), [(0.0, 2**30), (0.03, 0)])
def test_a_step_is_that_of_the_formula(alpha, keep):
    """a_B -= step r, a_s += step V diag((1 - tau mu_k+1 / mu_i) / (mu_i M)) V' K_sB r.

    The penalty adds n alpha a to the residuals, and n alpha to the kernel's diagonal.
    """
    X, y, _ = table(60)
    kernel = Gaussian(1.2)
    problem = whole_space(kernel, X, y[:, None], alpha=alpha, keep=keep)
    problem = replace(problem, start=np.random.default_rng(0).normal(size=(60, 1)))
    solver = EigenPro(rank=5, subsample=25, damping=0.5, batch_size=20)
    state = solver.init(problem)
    space, expected = state.space, state.coef.copy()
    K, sample = kernel(X) + 60 * alpha * np.eye(60), space.sample
    assert len(sample) == 25
    mu, V = (part[..., ::-1] for part in np.linalg.eigh(K[np.ix_(sample, sample)] / 25))
    assert np.allclose(state.details["spectrum"], mu[:6])
    V, gain = V[:, :5], (1 - 0.5 * mu[5] / mu[:5]) / (mu[:5] * 25)
    for batch in space.batches(0):
        residual = K[batch] @ expected - y[batch, None]
        expected[batch] -= 0.1 * residual
        expected[sample] += (
            0.1 * V @ (gain[:, None] * (V.T @ (K[np.ix_(sample, batch)] @ residual)))
        )
        space.advance(state.coef, batch, 0.1)
    assert np.allclose(state.coef, expected, atol=1e-10)


def test_a_step_on_features_is_that_of_the_formula():
    """w -= step (I - E diag(1 - tau mu_k+1 / mu_i) E') (Z_B' r + m alpha w)."""
    problem = make_problem(SquaredError(), "random_fourier", weighted=False, dtype=np.float64)
    n_rows = len(problem.target)
    solver = EigenPro(rank=5, subsample=n_rows, damping=0.5, batch_size=20)
    state = solver.init(problem)
    Z = problem.operator.rows(0, n_rows)
    mu, E = (part[..., ::-1] for part in np.linalg.eigh(Z.T @ Z / n_rows))
    assert np.allclose(state.details["spectrum"], mu[:6])
    P = np.eye(Z.shape[1]) - (E[:, :5] * (1 - 0.5 * mu[5] / mu[:5])) @ E[:, :5].T
    expected = state.coef.copy()
    for batch in state.space.batches(0):
        residual = Z[batch] @ expected - problem.target[batch]
        gradient = Z[batch].T @ residual + len(batch) * problem.alpha * expected
        expected -= 0.01 * P @ gradient
        state.space.advance(state.coef, batch, 0.01)
    assert np.allclose(state.coef, expected, atol=1e-10)


@pytest.mark.parametrize("space", ["kernel", "random_fourier"])
def test_the_step_is_one_and_a_half_over_the_largest_eigenvalue(space):
    """Of the preconditioned kernel matrix of a batch: here the one batch that there is."""
    problem = make_problem(LogLoss(), space, weighted=True, dtype=np.float64)
    rows = np.flatnonzero(problem.weight)
    solver = EigenPro(rank=6, subsample=len(rows), batch_size=len(rows))
    state = solver.init(problem)
    curvature = len(rows) * problem.weight[rows] * problem.loss.curvature
    K = problem.kernel(problem.source[rows])
    if space != "kernel":
        Z = problem.operator.take(rows)
        K = Z @ Z.T
    K = np.sqrt(curvature)[:, None] * K * np.sqrt(curvature)
    ridge = len(rows) * problem.alpha
    values = np.linalg.eigvalsh(K)[::-1]
    if space == "kernel":  # the penalty is a part of the residual, flattened like the rest
        values, ridge = values + ridge, 0.0
    assert np.isclose(state.rate, 1.5 / (values[6] + ridge))
    assert np.isclose(
        state.details["predicted_acceleration"], (values[0] + ridge) / (values[6] + ridge)
    )


@pytest.mark.parametrize("keep", [0, 2**30])  # in four parts, and in one
def test_no_step_is_longer_than_the_batch_allows(keep):
    """1.9 times r'r over r' K_P r, with K_P the preconditioned kernel of the batch."""
    X, y, _ = table(60)
    problem = whole_space(Gaussian(1.2), X, y[:, None], alpha=0.01, keep=keep)
    state = EigenPro(rank=5, subsample=25, batch_size=20).init(problem)
    space, batch = state.space, state.space.batches(0)[0]
    K = Gaussian(1.2)(X) + 0.6 * np.eye(60)
    on_sample = space._vectors.T @ K[np.ix_(space.sample, batch)]
    flattened = K[np.ix_(batch, batch)] - on_sample.T @ (space._gain * on_sample)
    r = -y[batch]
    longest = 1.9 * (r @ r) / (r @ flattened @ r)
    space.advance(state.coef, batch, 1e6)
    outside = np.isin(batch, space.sample, invert=True)
    assert np.allclose(state.coef[batch[outside], 0], -longest * r[outside])


def test_the_sample_knows_weights():
    """Ten equal rows have nine tenths of the weight: so much of the second moment is theirs."""
    X = np.r_[np.zeros((10, 1)), 10.0 + 3.0 * np.arange(90)[:, None]]
    weight = np.r_[np.full(10, 9.0 / 10), np.full(90, 1.0 / 90)]
    problem = whole_space(Gaussian(0.1), X, np.ones((100, 1)), weight=weight)
    for subsample in (50, 100):
        spectrum = EigenPro(subsample=subsample).init(problem).details["spectrum"]
        assert abs(spectrum[0] - 0.9) < 0.03


@pytest.mark.parametrize("batch_size", [1, 7, 60])
def test_every_row_is_in_every_epoch_once(batch_size):
    problem = make_problem(SquaredError(), "kernel", weighted=True)
    space = EigenPro(batch_size=batch_size).init(problem).space
    for epoch in (0, 1):
        rows = np.concatenate(space.batches(epoch))
        assert sorted(rows) == list(np.flatnonzero(problem.weight > 0))
    assert not np.array_equal(np.concatenate(space.batches(0)), rows)


def test_eigenpairs_of_a_large_matrix_are_the_leading_ones():
    X = np.random.default_rng(0).normal(size=(1500, 5))
    G = Gaussian(2.0)(X) / len(X)
    values, vectors = top_eigenpairs(G, 40, seed=0)
    exact = np.linalg.eigvalsh(G)[::-1][:40]
    assert np.allclose(values, exact, rtol=1e-3)
    assert np.allclose(vectors.T @ G @ vectors, np.diag(values), atol=1e-12)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(data=st.data())
def test_never_diverges(data):
    """Whatever kernel, scale, batch, rank, weights and penalty.

    Steps of a batch of noisy rows leave noise, so the objective need not fall; it stays bounded.
    """
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    n_rows = data.draw(st.integers(1, 90))
    X = rng.normal(size=(n_rows, data.draw(st.integers(1, 4))))
    X = X[rng.integers(0, n_rows, n_rows)] if data.draw(st.booleans()) else X  # rows that repeat
    kernel = data.draw(st.sampled_from(KERNELS))(10 ** data.draw(st.floats(-2, 2)))
    kernel = 10 ** data.draw(st.floats(-3, 3)) * kernel
    weight = 10 ** (data.draw(st.floats(0, 2)) * rng.normal(size=n_rows))
    alpha = data.draw(st.sampled_from([0.0, 1e-8, 1e-4, 1e-2, 1.0, 100.0]))
    loss = data.draw(
        st.sampled_from([SquaredError(), Huber(0.1), LogLoss(), SquaredHinge(), Softmax()])
    )
    target = rng.normal(size=(n_rows, 2))
    if "regression" not in loss.tasks:
        target = loss.encode(rng.integers(0, 3, n_rows), 3)
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    problem = whole_space(kernel, X, target, loss=loss, alpha=alpha, weight=weight, dtype=dtype)
    if data.draw(st.booleans()):
        features = Nystrom(30, kernel, random_state=0)
        features.fit_rows(problem.source, problem.weight, dtype)
        operator = features.operator(problem.source, dtype)
        problem = replace(problem, features=features, operator=operator)
    solver = EigenPro(
        rank=data.draw(st.one_of(st.just("auto"), st.integers(0, n_rows))),
        subsample=data.draw(st.one_of(st.just("auto"), st.integers(1, n_rows))),
        batch_size=data.draw(st.one_of(st.just("auto"), st.integers(1, n_rows))),
        tol=0.0,
    )
    fit = run(problem, solver, max_epochs=15)
    at_zero = loss.value(np.zeros_like(target), target, problem.weight)
    assert problem.objective(fit.state.coef) <= 4 * at_zero
    assert not any("note" in row for row in fit.history)


@settings(deadline=None, max_examples=40, derandomize=True)
@given(data=st.data())
def test_no_step_leads_away_from_the_solution(data):
    """In the norm that the preconditioner belongs to, for the squared error, to rounding."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    n_rows = data.draw(st.integers(2, 40))
    X, y = rng.normal(size=(n_rows, 2)), rng.normal(size=(n_rows, 1))
    kernel = 10 ** data.draw(st.floats(-2, 2)) * Exponential(10 ** data.draw(st.floats(-1, 1)))
    weight = 10 ** (data.draw(st.floats(0, 1)) * rng.normal(size=n_rows))
    problem = whole_space(kernel, X, y, alpha=10 ** data.draw(st.floats(-6, 1)), weight=weight)
    solver = EigenPro(
        rank=data.draw(st.integers(0, n_rows)),
        subsample=data.draw(st.integers(1, n_rows)),
        batch_size=data.draw(st.integers(1, n_rows)),
    )
    state = solver.init(problem)
    space = state.space
    K = kernel(X) + np.diag(problem.alpha / problem.weight)
    solution = np.linalg.solve(K, y)
    P = np.eye(n_rows)
    V = space._vectors
    P[space.sample] -= V @ (space._gain * (V.T @ K[space.sample]))
    energy = np.linalg.solve(P.T, K)  # K P^-1, symmetric

    def distance():
        error = state.coef - solution
        return np.vdot(error, energy @ error)

    before = distance()
    for batch in [part for epoch in range(3) for part in space.batches(epoch)]:
        space.advance(state.coef, batch, 100.0 * state.rate)  # far too long, were it not held
        assert distance() <= before * (1 + 1e-6)
        before = distance()


@pytest.mark.parametrize("space", ["kernel", "random_fourier"])
@pytest.mark.parametrize("batch_size", [4, 30])
def test_step_is_at_most_twice_slower_than_the_best(space, batch_size):
    problem = make_problem(SquaredError(), space, weighted=False, alpha=1e-3)
    least, _ = exact_objective(problem)
    solver = EigenPro(batch_size=batch_size, tol=0.0)

    def epochs(factor):
        state = solver.init(problem)
        state.rate *= factor
        for epoch in range(1, 200):
            state = solver.step(problem, state)
            if problem.objective(state.coef) <= 1.001 * least:
                return epoch
        return np.inf

    assert epochs(1.0) <= 2 * min(epochs(factor) for factor in 2.0 ** np.arange(-2.0, 4.0))


def test_flattened_directions_save_epochs():
    X, y, _ = table(1500)
    problem = whole_space(Gaussian(1.5), X, y[:, None], alpha=1e-6, dtype=np.float32)
    target = 1.1 * exact_objective(problem)[0]
    ours = epochs_until(problem, EigenPro(tol=0.0, batch_size=128), target)
    plain = epochs_until(problem, Pegasos(tol=0.0, batch_size=128), target, 6 * ours)
    assert plain > 6 * ours


def test_pegasos_in_the_whole_space_is_eigenpro_of_rank_zero():
    X, _, codes = table()
    fits = [
        KernelClassifier(features=None, solver=solver, max_epochs=5, random_state=0).fit(X, codes)
        for solver in (Pegasos(batch_size=16), EigenPro(rank=0, batch_size=16))
    ]
    assert np.array_equal(*(model.decision_function(X) for model in fits))
    assert fits[0].history_[0]["predicted_acceleration"] == 1.0
    with pytest.raises(ValueError, match=r"smooth loss.*features="):
        KernelClassifier(features=None, solver="pegasos", loss="hinge").fit(X, codes)


@pytest.mark.parametrize("features", [None, RandomFourier(60, random_state=0)], ids=str)
def test_weights_count_like_copies(features):
    X, y, _ = table()
    times = np.random.default_rng(0).integers(0, 4, size=len(X))
    model = KernelRegressor(
        features=features,
        solver=EigenPro(tol=1e-8),
        alpha=1e-3,
        length_scale=1.0,
        max_epochs=300,
        random_state=0,
    )
    weighted = model.fit(X, y, sample_weight=times).predict(X)
    copied = model.fit(np.repeat(X, times, axis=0), np.repeat(y, times)).predict(X)
    assert np.allclose(weighted, copied, atol=2e-3)


def test_same_bits_for_any_number_of_threads():
    X, y, _ = table(700)
    for features in (None, Nystrom(60, random_state=0)):
        model = KernelRegressor(features=features, solver="eigenpro", random_state=0, max_epochs=3)
        one, two = (model.set_params(n_jobs=n).fit(X, y).predict(X) for n in (1, 2))
        assert np.array_equal(one, two)


@pytest.mark.parametrize("features", [None, RandomFourier(60, random_state=0)], ids=str)
def test_warm_start_goes_on(features):
    X, y, _ = table(600)
    model = KernelRegressor(
        features=features, solver="eigenpro", warm_start=True, max_epochs=4, random_state=0
    )
    first = model.fit(X, y).history_
    second = model.fit(X, y).history_
    assert second[0]["objective"] < 1.02 * first[-1]["objective"] < first[0]["objective"]


def test_rows_that_are_added_become_centres_and_the_fit_goes_on():
    X, y, _ = table(600)
    model = KernelRegressor(
        "exponential", solver=EigenPro(tol=1e-9), alpha=1e-3, length_scale=2.0, random_state=0
    )
    model.set_params(max_epochs=2).partial_fit(X[:400], y[:400])
    assert model.expansion_.centers.shape == (400, 3)
    begun = model.history_[0]["objective"]
    model.set_params(max_epochs=100).partial_fit(X[400:], y[400:])
    whole = KernelRegressor("exponential", solver="exact", alpha=1e-3, length_scale=2.0).fit(X, y)
    assert np.allclose(model.predict(X), whole.predict(X), atol=1e-3)
    assert model.history_[0]["objective"] < begun
    assert not hasattr(model.set_params(solver=EigenPro(centers=50)), "partial_fit")


def test_early_stopping_keeps_the_best_epoch():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = np.sin(2 * X[:, 0]) + rng.normal(size=600)
    model = KernelRegressor("exponential", solver="eigenpro", alpha=0.0, random_state=0)
    to_the_end = model.fit(X, y).score(X, np.sin(2 * X[:, 0]))
    model.set_params(early_stopping=True).fit(X, y)
    losses = [row["validation_loss"] for row in model.history_]
    assert len(losses) < EigenPro.max_epochs
    assert np.argmin(losses) == len(losses) - 6
    assert model.score(X, np.sin(2 * X[:, 0])) > to_the_end + 0.1


def test_centers_make_a_small_model_of_rows_on_disk(tmp_path):
    rng = np.random.default_rng(0)
    rows = np.memmap(tmp_path / "rows", np.float32, "w+", shape=(5000, 3))
    rows[...] = rng.normal(size=rows.shape)
    codes = (rows[:, 0] * rows[:, 1] > 0).astype(int)
    model = KernelClassifier(
        loss="squared_error", solver=EigenPro(centers=200), alpha=1e-6, random_state=0
    ).fit(rows, codes)
    assert model.expansion_.centers.shape == (200, 3)
    assert accuracy_score(codes, model.predict(rows)) > 0.95
    with pytest.raises(ValueError, match=r"centers=200 and features=.*Give one"):
        model.set_params(features="random_fourier").fit(rows, codes)


def test_centers_that_are_given_represent_the_solution():
    X, y, _ = table(300)
    centers = np.random.default_rng(1).uniform(-2, 2, size=(40, 3))
    solver = EigenPro(centers=centers, tol=1e-9)
    model = KernelRegressor(
        Gaussian(1.5), solver=solver, alpha=1e-3, max_epochs=300, random_state=0
    ).fit(X, y)
    K, inner = Gaussian(1.5)(X, centers), Gaussian(1.5)(centers)
    best = K @ np.linalg.solve(K.T @ K / 300 + 1e-3 * inner, K.T @ y / 300)
    assert np.abs(model.predict(X) - best).max() < 1e-3
    for bad in ("many", 0, 2.5):
        with pytest.raises(ValueError, match=r"centers must be a positive integer, an array"):
            model.set_params(solver=EigenPro(centers=bad)).fit(X, y)


def test_history_tells_the_spectrum_and_the_choice():
    X, y, _ = table(600)
    history = KernelRegressor(solver="eigenpro", random_state=0).fit(X, y).history_
    first = history[0]
    assert len(first["spectrum"]) > first["rank"] > 0
    assert (np.diff(first["spectrum"]) <= 0).all()
    assert first["critical_batch"] >= first["batch_size"]
    assert first["predicted_acceleration"] > 1
    assert "spectrum" not in history[1]
    assert history[1]["step"] > 0


def test_what_makes_no_sense_is_refused_with_a_way_out():
    with pytest.raises(ValueError, match=r"smooth loss.*log_loss.*exact"):
        EigenPro().check(Hinge(), None, 0.1)
    with pytest.raises(ValueError, match="dense features"):
        EigenPro().check(SquaredError(), RandomBinning(), 0.1)
    for bad in ({"rank": -1}, {"subsample": 0}, {"batch_size": 2.5}, {"damping": 0}, {"tol": -1}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            EigenPro(**bad).check(SquaredError(), None, 0.0)
