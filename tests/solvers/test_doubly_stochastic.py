"""Doubly stochastic gradients against closed forms, the exact minimum and their own rule."""

import tracemalloc
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from helpers import KERNEL, LOSSES, N_ROWS, exact_objective, make_problem
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from rkhs import KernelClassifier, KernelRegressor
from rkhs.data import RowSource
from rkhs.driver import run
from rkhs.features import Nystrom, RandomBinning, RandomFourier
from rkhs.kernels import Gaussian, Laplacian, Matern
from rkhs.losses import Hinge, LogLoss, SquaredError
from rkhs.solvers import CDSG, DSG, UDSG, Exact
from rkhs.solvers._block_steps import Batch
from rkhs.solvers._doubly_stochastic import longest_steps

METHODS = [DSG, UDSG, CDSG]
rng = np.random.default_rng(0)


def whole_batch(method, **more):
    """A solver whose model ends with the 80 features of the problem."""
    return method(tol=0.0, max_features=80, block_size=40, batch_size=N_ROWS, **more)


CASES = [
    pytest.param(loss, step, id=f"{loss}-{step}")
    for loss in LOSSES
    for step in ("newton", "gradient")
    if step == "gradient" or loss.curvature is not None
]


@pytest.mark.parametrize(("loss", "step"), CASES)
def test_visiting_the_same_blocks_again_leads_to_the_exact_minimum(loss, step):
    problem = make_problem(loss, "random_fourier")
    least, _ = exact_objective(problem)
    epochs = 300 if loss.curvature is None else 40
    fit = run(problem, whole_batch(DSG, step=step), max_epochs=epochs)
    assert fit.expansion.coef.shape == (80, problem.target.shape[1])
    reached = problem.objective(fit.expansion.coef.astype(np.float64))
    assert least * (1 - 1e-4) <= reached <= least * (1 + 1e-3)


@pytest.mark.parametrize("loss", [x for x in LOSSES if x.curvature is None], ids=repr)
def test_newton_steps_come_within_three_percent_with_a_kink(loss):
    problem = make_problem(loss, "random_fourier")
    least, _ = exact_objective(problem)
    fit = run(problem, whole_batch(DSG), max_epochs=40)
    assert problem.objective(fit.expansion.coef.astype(np.float64)) <= 1.03 * least


@pytest.mark.parametrize("method", METHODS)
def test_algorithm_one_comes_ever_closer_to_the_exact_function(method):
    """The mean squared distance falls like 1/t: by four and more for 8 times the steps."""
    problem = make_problem(SquaredError(), "kernel", alpha=0.1)
    exact = run(make_problem(SquaredError(), "kernel", alpha=0.1, dtype=np.float64), Exact())
    wanted = exact.expansion.evaluate(problem.source)
    distances = []
    for epochs in (10, 80):
        total = 0.0
        for seed in range(3):
            growing = _growing(problem, seed)
            solver = method(tol=0.0, step="gradient", batch_size=15, block_size=8)
            f = run(growing, solver, max_epochs=epochs).expansion.evaluate(problem.source)
            total += float(((f - wanted) ** 2).mean())
        distances.append(total / 3)
    assert distances[1] < 0.25 * distances[0]
    assert distances[1] < 0.01 * float((wanted**2).mean())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("loss", [SquaredError(), LogLoss(), Hinge()], ids=repr)
def test_newton_steps_of_a_growing_model_lead_to_the_exact_function(method, loss):
    """Not to one that is penalised less, the more blocks there are."""
    problem = make_problem(loss, "kernel", alpha=0.05)
    _, coef = exact_objective(make_problem(loss, "kernel", alpha=0.05, dtype=np.float64))
    wanted = KERNEL(problem.source[:]) @ coef
    distances = []
    for epochs in (1, 20):
        total = 0.0
        for seed in range(2):
            solver = method(tol=0.0, batch_size=N_ROWS, block_size=80)
            fit = run(_growing(problem, seed), solver, max_epochs=epochs)
            f = fit.expansion.evaluate(problem.source)
            total += float(((f - wanted) ** 2).mean()) / float((wanted**2).mean())
        distances.append(total / 2)
    assert distances[1] < 0.15 * distances[0]
    assert distances[1] < 0.004


def _growing(problem, seed):
    features = RandomFourier(2, KERNEL, random_state=seed)
    features.fit_rows(problem.source, problem.weight, np.float32)
    bare = replace(problem, features=features, seed=seed)
    return bare.with_rows(problem.source, problem.target, problem.weight, np.float32)


@pytest.mark.parametrize(
    "kernel", [Gaussian(1.5), Laplacian(2.0), Matern(1.5), 3.0 * Gaussian(1.5)]
)
def test_a_gradient_step_is_the_formula(kernel):
    """coef = -theta/t mean(loss' phi) for the new block, older ones shrink by 1 - theta/t alpha."""
    problem = make_problem(SquaredError(), "random_fourier", alpha=0.2, weighted=False)
    features = RandomFourier(2, kernel, random_state=0)
    features.fit_rows(problem.source, problem.weight, np.float64)
    problem = replace(problem, features=features).with_rows(
        problem.source, problem.target, problem.weight, np.float64
    )
    solver = DSG(
        step="gradient", step_size=0.7, batch_size=N_ROWS // 2, block_size=6, shuffle=False
    )
    state = solver.absorb(problem, solver.init(problem))
    X, y, half = problem.source[:], problem.target, N_ROWS // 2
    Z = features.sized(12).transform(X) * np.sqrt(2)  # one block of two: 6 features each
    first, second = [0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11]
    a = -0.7 * Z[:half, first].T @ (0 - y[:half]) / half
    f = Z[half:, first] @ a
    b = -0.35 * Z[half:, second].T @ (f - y[half:]) / half
    wanted = Z[:, first] @ (a * (1 - 0.35 * 0.2)) + Z[:, second] @ b
    last = replace(state, coef=state.scale * state.iterate)
    np.testing.assert_allclose(
        DSG.finish(solver, problem, last).evaluate(problem.source), wanted, rtol=1e-9
    )


@pytest.mark.parametrize("again", [False, True])
def test_a_newton_step_is_the_formula(again):
    """(H + penalty + damping)^-1 gradient, as far as the rows' own objective falls.

    The norm of one block of three counts three times. When it joins, the other two shrink as
    far as that lowers the objective.
    """
    problem = make_problem(SquaredError(), "random_fourier", alpha=0.02, weighted=False)
    solver = DSG(tol=0.0, block_size=6, batch_size=N_ROWS, max_features=12 if again else None)
    state = solver.init(problem)
    order = np.arange(N_ROWS)
    for _ in range(2):
        state = solver.absorb(problem, state, order)
    before, penalty, block = state, 3 * 0.02, 2
    state = solver.absorb(problem, state, order)
    if again:
        moved = (state.iterate - before.iterate).any(axis=(1, 2))
        block, penalty = int(np.flatnonzero(moved)[0]) // 3, 2 * 0.02
    X, y = problem.source[:], problem.target
    pairs = np.empty((N_ROWS, 18), np.float32)
    problem.features.write_pairs(X, 0, 9, pairs)
    pairs = pairs.astype(np.float64) * np.sqrt(1 / 3)  # a block of three frequencies alone
    own = [*range(3 * block, 3 * block + 3), *range(9 + 3 * block, 12 + 3 * block)]

    def stacked(iterate):
        wide = np.zeros((9, 2, 2))
        wide[: len(iterate)] = iterate
        return wide.transpose(1, 0, 2).reshape(18, 2) * np.sqrt(3)

    old, new = (stacked(x.scale * x.iterate) for x in (before, state))
    if not again:
        f, norm = pairs @ old, penalty * np.vdot(old, old)
        share = (np.vdot(f, f - y) / N_ROWS + norm) / (np.vdot(f, f) / N_ROWS + norm)
        assert 0 < share < 1 / 3
        old *= 1 - share
    Z = pairs[:, own]
    H = Z.T @ Z / N_ROWS
    gradient = Z.T @ (pairs @ old - y) / N_ROWS + penalty * old[own]
    damping = np.trace(H) / N_ROWS
    direction = np.linalg.solve(H + (penalty + damping) * np.eye(6), gradient)
    length = np.vdot(gradient, direction) / (
        np.vdot(direction, H @ direction) + penalty * np.vdot(direction, direction)
    )
    old[own] -= min(length, 8.0) * direction
    np.testing.assert_allclose(new, old, rtol=5e-3, atol=1e-5)


def test_old_blocks_shrink_by_no_more_than_the_share_of_the_new_one():
    """However large the penalty; and not at all if more of the function lowers the objective."""
    problem = make_problem(SquaredError(), "random_fourier", weighted=False)
    solver = DSG(tol=0.0, block_size=6, batch_size=N_ROWS)
    state = solver.absorb(problem, solver.init(problem))
    for alpha, factor, kept in ((1e3, 1.0, 0.5), (1e-9, 0.1, 1.0)):
        before = replace(state, iterate=factor * state.iterate)
        after = solver.absorb(replace(problem, alpha=alpha), before)
        np.testing.assert_allclose(
            after.scale * after.iterate[:3], kept * before.scale * before.iterate
        )


def test_the_noise_of_a_slope_is_what_parts_of_the_batch_do_not_agree_on():
    problem = make_problem(SquaredError(), "random_fourier")
    draw = np.random.default_rng(0)
    shares, mean = np.array([0.2, 0.3, 0.25, 0.25]), draw.normal(size=5)
    A = draw.normal(size=(5, 5))
    P = A @ A.T
    batch = Batch(problem, problem.source, problem.target, np.ones(N_ROWS))
    batch.f = np.zeros_like(problem.target)
    signals, noises = [], []
    for _ in range(4000):
        folds = shares[:, None] * mean + np.sqrt(0.1 * shares)[:, None] * draw.normal(size=(4, 5))
        total, own = folds.sum(0) @ P @ folds.sum(0), np.einsum("ki,ij,kj", folds, P, folds)
        noises.append(batch.noise(total, own, shares))
        signals.append(total - noises[-1])
        assert replace_population(batch, 4 * N_ROWS).noise(total, own, shares) == pytest.approx(
            0.75 * noises[-1]
        )
        assert replace_population(batch, N_ROWS).noise(total, own, shares) == 0.0
    assert abs(np.mean(signals) - mean @ P @ mean) < 4 * np.std(signals) / np.sqrt(4000)
    assert np.mean(noises) == pytest.approx(0.1 * np.trace(P), rel=0.1)


def replace_population(batch, population):
    other = replace(batch, population=population)
    other.f = batch.f
    return other


def test_little_is_learnt_from_noise():
    """Targets without signal: new blocks take short steps, as their rows do not agree."""
    size = 0.0
    for seed in range(3):
        draw = np.random.default_rng(seed)
        model = KernelRegressor(
            solver=DSG(batch_size=200, block_size=40),
            length_scale=1.5,
            alpha=1e-4,
            random_state=seed,
        )
        for _ in range(40):
            model.partial_fit(draw.normal(size=(200, 3)), draw.normal(size=200))
        size += np.mean(model.predict(draw.normal(size=(2000, 3))) ** 2) / 3
    assert size < 0.08


def absorbed_states(solver, problem, n_states, **more):
    """The states after each of so many steps, before each of which some values are replaced."""
    states = [solver.absorb(problem, solver.init(problem))]
    for _ in range(n_states - 1):
        states.append(solver.absorb(problem, replace(states[-1], **more)))
    return states


def without_the_check(monkeypatch):
    monkeypatch.setattr(
        "rkhs.solvers._doubly_stochastic.longest_steps", lambda drift, *_: np.zeros(len(drift))
    )


@pytest.mark.parametrize("agreement", [1.0, 0.5, 0.0, -0.5])
def test_new_blocks_are_drawn_as_often_as_slopes_agree(agreement, monkeypatch):
    """And, however noisy they are, at least in t^-1/2 of the steps."""
    without_the_check(monkeypatch)
    counts, expected, variance = 0, 0.0, 0.0
    for seed in range(4):
        problem = make_problem(SquaredError(), "random_fourier", weighted=False, alpha=0.02)
        solver = CDSG(tol=0.0, block_size=4, batch_size=N_ROWS)
        states = absorbed_states(solver, replace(problem, seed=seed), 60, agreement=agreement)
        share = np.maximum(np.arange(1, 61) ** -0.5, agreement)
        counts += len(states[-1].edges) - 1
        expected += share.sum()
        variance += float((share * (1 - share)).sum())
    assert abs(counts - expected) <= 4 * np.sqrt(variance)


def test_gradient_steps_draw_new_blocks_however_noisy_they_are(monkeypatch):
    without_the_check(monkeypatch)
    problem = make_problem(SquaredError(), "random_fourier", weighted=False, alpha=0.02)
    solver = CDSG(tol=0.0, step="gradient", block_size=4, batch_size=N_ROWS)
    states = absorbed_states(solver, problem, 30, agreement=0.0)
    assert len(states[-1].edges) - 1 == 30


def test_agreement_tells_noise_from_signal():
    """All of the slope of targets without noise; hardly any of a stream of noise alone."""
    draw = np.random.default_rng(0)
    agreements = {}
    for name, targets in {
        "signal": lambda rows: np.sin(2 * rows[:, 0]),
        "noise": lambda rows: draw.normal(size=len(rows)),
    }.items():
        model = regressor(DSG(batch_size=400, block_size=20), alpha=1e-3)
        seen = []
        for step in range(12):
            rows = draw.normal(size=(400, 3))
            model.partial_fit(rows, targets(rows))
            if name == "noise" or step == 0:
                seen.append(model._stream.state.agreement)
        agreements[name] = np.mean(seen)
    assert agreements["signal"] > 0.8
    assert abs(agreements["noise"]) < 0.25


def test_noise_of_small_batches_does_not_add_up_in_the_norm_of_a_checked_model():
    """480 steps of 400 noisy rows end near the least objective of a table of 8,000."""
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(8000, 3))
    target = np.sin(2 * rows[:, 0]) + draw.normal(size=8000)

    def objective(**axes):
        total = 0.0
        for seed in range(2):
            model = KernelRegressor(length_scale=1.5, alpha=1e-4, random_state=seed, **axes)
            coef = model.fit(rows, target).expansion_.coef.astype(np.float64)
            loss = 0.5 * np.mean((model.predict(rows) - target) ** 2)
            total += loss + 0.5e-4 * np.vdot(coef, coef)
        return total / 2

    least = objective(features=RandomFourier(2000), solver="conjugate_gradient")
    solver = CDSG(tol=0.0, batch_size=400, block_size=40)
    assert objective(solver=solver, max_epochs=24) < 1.12 * least


@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 10), st.floats(0, 1), st.integers(1, 4))
def test_the_checked_step_is_the_longest_that_the_rule_allows(seed, length, noise, n_outputs):
    draw = np.random.default_rng(seed)
    drift, slope = draw.normal(size=(5, n_outputs)), draw.normal(size=n_outputs)
    steps = longest_steps(drift, slope, length, noise)

    def excess(eta):
        left = 2 * ((drift - eta[:, None] * slope) ** 2).sum(1) + 2 * eta**2 * noise
        return left - (drift**2).sum(1) - length**2 * slope @ slope

    scale = 1e-9 * (1 + (drift**2).sum() + length**2 * slope @ slope)
    allowed = steps > 0
    assert (np.abs(excess(steps))[allowed] <= scale).all()
    for longer in (1.001, 1.5, 10.0, 1e3):
        assert (excess(steps * longer + 1e-6)[allowed] > 0).all()
    grid = np.linspace(0, 50, 2001)[1:]
    for k in np.flatnonzero(~allowed):
        assert all(excess(np.full(5, eta))[k] > -scale for eta in grid[::20])


def test_what_a_checked_gradient_step_adds_to_its_length_falls_as_the_rate_needs(monkeypatch):
    """Its square falls like 1/t, however long the rule's own line search would go."""
    monkeypatch.setattr(
        "rkhs.solvers._doubly_stochastic.longest_steps", lambda drift, *_: np.full(len(drift), 1e9)
    )
    problem = make_problem(SquaredError(), "random_fourier", alpha=0.2, weighted=False)
    solver = CDSG(step="gradient", step_size=0.7, batch_size=N_ROWS, block_size=6)
    for before, after in pairwise(absorbed_states(solver, problem, 31)):
        length = (1.0 - after.scale / before.scale) / 0.2
        plain = 0.7 / after.count
        assert length == pytest.approx(plain * (1.0 + after.count**-0.5))


def test_variance_of_features_is_that_of_many_draws():
    problem = make_problem(SquaredError(), "random_fourier")
    batch = Batch(problem, problem.source, problem.target, np.ones(N_ROWS))
    X, width = problem.source[:40], 16
    exact = KERNEL(X)
    deviations = []
    for seed in range(200):
        Z = RandomFourier(2 * width, KERNEL, random_state=seed).fit(X).transform(X)
        deviations.append((Z @ Z.T - exact).var(axis=1).mean())
    error = np.std(deviations) / np.sqrt(len(deviations))
    estimates = []
    for seed in range(40):
        features = RandomFourier(2, KERNEL, random_state=seed).fit_rows(
            problem.source, problem.weight, np.float32
        )
        estimates.append(
            Batch(
                replace(problem, features=features), batch.source, batch.target, batch.share
            ).feature_variance(width, 40)
        )
    error = np.hypot(error, np.std(estimates) / np.sqrt(len(estimates)))
    assert abs(np.mean(estimates) - np.mean(deviations)) < 4 * error


def regressor(solver, **more):
    return KernelRegressor(solver=solver, length_scale=1.5, random_state=0, **more)


X = rng.normal(size=(3000, 3))
y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]


@pytest.mark.parametrize("method", METHODS)
def test_regenerated_frequencies_give_the_same_bits_as_kept_ones(method, monkeypatch):
    kept = regressor(method(), max_epochs=2).fit(X, y)
    monkeypatch.setattr("rkhs.features._fourier._CACHE_BYTES", 0)
    regenerated = regressor(method(), max_epochs=2).fit(X, y)
    assert not regenerated.features_._cache
    np.testing.assert_array_equal(kept.predict(X), regenerated.predict(X))


@pytest.mark.parametrize("method", METHODS)
def test_results_do_not_depend_on_the_number_of_threads(method):
    one, two = (regressor(method(), max_epochs=2, n_jobs=n).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


def test_old_features_are_reused_as_asked():
    counts = {}
    for name, solver in {
        "dsg": DSG(tol=0.0, batch_size=500, block_size=100),
        "udsg": UDSG(tol=0.0, batch_size=500, block_size=100),
        "mostly reused": UDSG(generate=1, reuse=3, tol=0.0, batch_size=500, block_size=100),
        "cdsg": CDSG(tol=0.0, batch_size=500, block_size=100),
        "capped": DSG(tol=0.0, batch_size=500, block_size=100, max_features=300),
    }.items():
        model = regressor(solver, max_epochs=6).fit(X, y)
        counts[name] = len(model.expansion_.coef)
        assert model.score(X, y) > 0.9
    assert counts["mostly reused"] < 0.35 * counts["dsg"]
    assert counts["udsg"] < 0.6 * counts["dsg"]
    assert counts["cdsg"] < counts["dsg"]
    assert counts["capped"] == 300


def test_a_weight_counts_as_copies():
    weight = rng.integers(1, 4, 300).astype(float)
    few, target = X[:300], y[:300]
    copies = np.repeat(np.arange(300), weight.astype(int))

    def fitted(rows, weight):
        solver = UDSG(tol=0.0, block_size=20, max_features=40, batch_size=len(rows))
        model = regressor(solver, max_epochs=60, alpha=1e-2)
        return model.fit(few[rows], target[rows], sample_weight=weight).predict(X)

    np.testing.assert_allclose(fitted(np.arange(300), weight), fitted(copies, None), atol=2e-3)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("step", ["newton", "gradient"])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_no_divergence_on_raw_columns(method, step, loss):
    """Huge, tiny, constant and heavy-tailed columns, as they come, with every default."""
    draw = np.random.default_rng(1)
    table = np.column_stack(
        [1e8 * X[:800, 0], 1e-9 * X[:800, 1], np.full(800, 7.0), draw.standard_cauchy(800) ** 3]
    )
    if "classification" in loss.tasks:
        codes = (X[:800, 0] > 0).astype(int) + (X[:800, 1] > 0)
        model = KernelClassifier(solver=method(step=step), loss=loss, random_state=0, max_epochs=3)
        model.fit(table, codes)
        assert np.isfinite(model.decision_function(table)).all()
        assert model.score(table, codes) > np.bincount(codes).max() / 800 - 0.05
    else:
        target = 1e5 * (y[:800] + 10)
        model = KernelRegressor(solver=method(step=step), loss=loss, random_state=0, max_epochs=3)
        f = model.fit(table, target).predict(table)
        zero, t = np.zeros((800, 1)), target[:, None]
        assert loss.value(f[:, None].astype(float), t) <= loss.value(zero, t)


def test_a_time_budget_ends_within_an_epoch_and_a_stream_forgets_it():
    solver = DSG(tol=0.0, batch_size=100, block_size=20)
    model = regressor(solver, time_budget=1e-9).fit(X, y)
    assert len(model.expansion_.coef) == 20
    model.partial_fit(X[:1000], y[:1000])
    assert len(model.expansion_.coef) == 220


def test_bad_parameters_are_refused_with_a_way_out():
    for solver, message in [
        (DSG(step="euler"), "newton"),
        (DSG(step_size=-1.0), "step_size"),
        (DSG(batch_size=0), "batch_size"),
        (DSG(block_size=1.5), "block_size"),
        (DSG(max_features=1), "max_features"),
        (UDSG(generate=0), "generate"),
        (UDSG(reuse=-1), "reuse"),
    ]:
        with pytest.raises(ValueError, match=message):
            regressor(solver).fit(X, y)
    for features in (Nystrom(20), RandomBinning(20)):
        with pytest.raises(ValueError, match="random_fourier"):
            DSG().check(LogLoss(), features, 0.1)
    with pytest.raises(ValueError, match="features"):
        DSG().check(LogLoss(), None, 0.1)


def test_the_state_grows_with_the_features_and_nothing_else():
    def size(n_rows, n_columns):
        table = rng.normal(size=(n_rows, n_columns))
        solver = DSG(batch_size=250, block_size=64)
        model = KernelRegressor(solver=solver, random_state=0, alpha=1e-3)
        for rows in np.array_split(np.arange(n_rows), n_rows // 250):
            model.partial_fit(table[rows], table[rows, 0])
        state = model._stream.state
        assert state.waiting is None
        return state.coef.shape, state.iterate.nbytes + state.coef.nbytes + state.drift.nbytes

    assert size(1000, 3) == size(1000, 40)
    assert size(2000, 3)[0][0] == 2 * size(1000, 3)[0][0]


def test_rows_come_from_any_table_of_numbers():
    pandas = pytest.importorskip("pandas")
    from scipy import sparse

    whole = regressor("cdsg", max_epochs=2).fit(X, y).predict(X)
    for table in (sparse.csr_array(X), pandas.DataFrame(X, columns=list("abc"))):
        model = regressor("cdsg", max_epochs=2).fit(table, y)
        np.testing.assert_allclose(model.predict(table), whole, rtol=1e-4, atol=1e-4)
    assert isinstance(RowSource(X)[:1], np.ndarray)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_more_memory_is_taken_than_was_said(dtype):
    X = np.random.default_rng(0).normal(size=(12_000, 30)).astype(dtype)
    y = np.sin(X[:, 0])
    asked = []

    class Asked(DSG):
        def memory(self, *arguments):
            asked.append(super().memory(*arguments))
            return asked[-1]

    model = KernelRegressor(
        kernel="gaussian", length_scale=3.0, solver=Asked(), dtype=dtype, max_epochs=1
    )
    model.fit(X[:1000], y[:1000])
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    block_bytes = len(X) * 1024 * np.dtype(dtype).itemsize
    assert block_bytes < peak < asked[-1]


def test_a_table_begins_with_large_batches_and_a_stream_with_small_ones():
    X = np.random.default_rng(0).normal(size=(3000, 2))
    sizes = []

    class Watched(DSG):
        def _iterate(self, problem, state, order=None):
            sizes.append(len(state.waiting[0]))
            return super()._iterate(problem, state, order)

    model = KernelRegressor(kernel="gaussian", solver=Watched(), max_epochs=1)
    model.fit(X, X[:, 0])
    assert sizes[0] == 3000
    sizes.clear()
    clone(model).partial_fit(X, X[:, 0])
    assert sizes[0] == 512
