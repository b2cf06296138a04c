"""Losses against finite differences, repetitions, conjugates and population minimisers."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.metrics import hinge_loss, log_loss, mean_pinball_loss, mean_squared_error

from rkhs.losses import (
    LOSSES,
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

rng = np.random.default_rng(8)
REGRESSION = [
    SquaredError(),
    Huber(),
    Huber(delta=0.3),
    EpsilonInsensitive(),
    EpsilonInsensitive(epsilon=0.0),
    EpsilonInsensitive(epsilon=0.7),
    AbsoluteError(),
    Pinball(),
    Pinball(quantile=0.9),
    Pinball(quantile=0.1),
]
MARGIN = [SquaredError(), LogLoss(), Hinge(), SquaredHinge()]
every = pytest.mark.parametrize


def case(loss, n=200, outputs=3):
    """Decision values and targets away from kinks."""
    f = 2 * rng.normal(size=(n, outputs))
    if isinstance(loss, Softmax):
        return f, loss.encode(rng.integers(0, outputs, n), outputs)
    if "classification" in loss.tasks:
        t = loss.encode(rng.integers(0, outputs, n), outputs)
    else:
        t = rng.normal(size=(n, outputs))
    kinks = [1.0] if "classification" in loss.tasks else [0.0]
    margin = t * f if "classification" in loss.tasks else np.abs(f - t)
    for parameter in ("delta", "epsilon"):
        kinks.append(getattr(loss, parameter, 0.0))
    near = np.any([np.abs(margin - kink) < 1e-3 for kink in kinks], axis=0)
    return np.where(near, f + 0.01, f), t


LOSS = [*REGRESSION, *MARGIN[1:], Softmax()]
SMOOTH = [loss for loss in LOSS if loss.curvature is not None]
KINKED = [loss for loss in LOSS if loss.curvature is None]
STEP = 1e-5


def test_every_registered_loss_is_tested():
    assert {type(loss) for loss in LOSS} == set(LOSSES.values())


@every("loss", LOSS, ids=repr)
def test_the_derivative_is_the_slope_of_the_value(loss):
    f, t = case(loss)
    slope = np.empty_like(f)
    for output in range(f.shape[1]):
        move = np.zeros(f.shape)
        move[:, output] = STEP
        up = loss.elementwise(f + move, t).sum(axis=1)
        down = loss.elementwise(f - move, t).sum(axis=1)
        slope[:, output] = (up - down) / (2 * STEP)
    np.testing.assert_allclose(loss.derivative(f, t), slope, atol=1e-7)


@every("loss", LOSS, ids=repr)
def test_the_value_is_convex(loss):
    f, t = case(loss)
    g = 2 * rng.normal(size=f.shape)
    middle = loss.elementwise(0.5 * (f + g), t).sum(axis=1)
    ends = 0.5 * (loss.elementwise(f, t) + loss.elementwise(g, t)).sum(axis=1)
    assert (middle <= ends + 1e-12).all()
    assert (loss.elementwise(f, t) >= 0).all()


@every("loss", SMOOTH, ids=repr)
def test_the_hessian_product_is_the_change_of_the_derivative(loss):
    f, t = case(loss)
    v = rng.normal(size=f.shape)
    change = (loss.derivative(f + STEP * v, t) - loss.derivative(f - STEP * v, t)) / (2 * STEP)
    np.testing.assert_allclose(loss.hessian_product(f, t, v), change, atol=1e-7)


@every("loss", SMOOTH, ids=repr)
def test_the_second_derivative_is_the_diagonal_of_the_hessian(loss):
    f, t = case(loss)
    second = loss.second_derivative(f, t)
    for output in range(f.shape[1]):
        v = np.zeros(f.shape)
        v[:, output] = 1.0
        product = loss.hessian_product(f, t, v)
        np.testing.assert_allclose(product[:, output], second[:, output], atol=1e-12)


@every("loss", SMOOTH, ids=repr)
def test_the_curvature_bounds_the_hessian_and_is_reached(loss):
    # Random points with random directions, and for each loss a point where it bends most.
    f, t = case(loss, n=2000)
    worst_f = np.zeros((1, 3))
    worst_t = np.zeros((1, 3)) if not isinstance(loss, LogLoss | SquaredHinge) else np.ones((1, 3))
    if isinstance(loss, Softmax):  # two classes at one half each
        worst_f, worst_t = np.array([[0.0, 0.0, -40.0]]), np.array([[1.0, 0.0, 0.0]])
    f, t = np.vstack([f, worst_f]), np.vstack([t, worst_t])
    largest = 0.0
    for v in [rng.normal(size=f.shape) for _ in range(10)] + [
        np.tile([1.0, -1.0, 0.0], (len(f), 1))
    ]:
        product = loss.hessian_product(f, t, v)
        ratio = np.linalg.norm(product, axis=1) / np.linalg.norm(v, axis=1)
        largest = max(largest, ratio.max())
    assert largest <= loss.curvature * (1 + 1e-12)
    assert largest == pytest.approx(loss.curvature, rel=1e-6)


@every("loss", LOSS, ids=repr)
def test_only_the_quadratic_loss_says_so(loss):
    assert loss.quadratic == isinstance(loss, SquaredError)
    assert loss.coupled == isinstance(loss, Softmax)


@every("loss", LOSS, ids=repr)
def test_weights_are_repetitions(loss):
    f, t = case(loss, n=30)
    weight = rng.integers(0, 5, 30)
    repeated = loss.value(np.repeat(f, weight, axis=0), np.repeat(t, weight, axis=0))
    assert loss.value(f, t, weight) == pytest.approx(repeated, rel=1e-12)
    assert loss.value(f, t, 7.5 * weight) == pytest.approx(repeated, rel=1e-12)
    assert loss.value(f, t) == pytest.approx(loss.elementwise(f, t).sum() / 30, rel=1e-12)


def test_values_are_those_of_scikit_learn():
    f, t = rng.normal(size=(50, 1)), rng.normal(size=(50, 1))
    assert SquaredError().value(f, t) == pytest.approx(0.5 * mean_squared_error(t, f))
    assert Pinball(quantile=0.8).value(f, t) == pytest.approx(mean_pinball_loss(t, f, alpha=0.8))
    codes = rng.integers(0, 2, 50)
    signs = LogLoss().encode(codes, 2)
    assert LogLoss().value(f, signs) == pytest.approx(log_loss(codes, 1 / (1 + np.exp(-f[:, 0]))))
    assert Hinge().value(f, signs) == pytest.approx(hinge_loss(codes, f[:, 0]))
    squared = 0.5 * np.mean(np.maximum(0, 1 - signs * f) ** 2)
    assert SquaredHinge().value(f, signs) == pytest.approx(squared)
    F, codes = rng.normal(size=(50, 4)), rng.integers(0, 4, 50)
    p = np.exp(F) / np.exp(F).sum(axis=1, keepdims=True)
    expected = log_loss(codes, p, labels=range(4))
    assert Softmax().value(F, Softmax().encode(codes, 4)) == pytest.approx(expected)


def test_huber_is_squared_inside_and_linear_outside():
    loss, zero = Huber(delta=0.5), np.zeros((1, 1))
    for r in (0.1, 0.5, -0.3):
        assert loss.value(zero + r, zero) == pytest.approx(0.5 * r * r)
    for r in (0.6, 10.0, -3.0):
        assert loss.value(zero + r, zero) == pytest.approx(0.5 * abs(r) - 0.125)


def test_two_classes_of_softmax_are_the_logistic_loss_of_the_difference():
    F, codes = rng.normal(size=(40, 2)), rng.integers(0, 2, 40)
    difference = F[:, 1:] - F[:, :1]
    expected = LogLoss().value(difference, LogLoss().encode(codes, 2))
    assert Softmax().value(F, Softmax().encode(codes, 2)) == pytest.approx(expected)
    np.testing.assert_allclose(Softmax().probability(F), LogLoss().probability(difference))


@every("loss", KINKED, ids=repr)
def test_a_kinked_loss_is_the_maximum_over_its_dual_box(loss):
    # loss(f) = max over the box of (linear - f) a - epsilon |a|, at a corner or at zero.
    f, t = case(loss)
    box = loss.dual(t)
    corners = np.stack([box.lower, box.upper, np.clip(0.0, box.lower, box.upper)])
    values = (box.linear - f) * corners - box.epsilon * np.abs(corners)
    np.testing.assert_allclose(values.max(axis=0), loss.elementwise(f, t), atol=1e-12)


@every("loss", KINKED, ids=repr)
def test_inside_the_box_the_dual_is_the_conjugate_and_outside_it_is_infinite(loss):
    # sup over f of -a f - loss(f) = epsilon |a| - linear a, searched on a wide grid.
    classes = "classification" in loss.tasks
    f = np.linspace(-1e3, 1e3, 200_001)[:, None]
    for t in [-1.0, 1.0] if classes else [-0.7, 1.3]:
        target = np.full((1, 1), t)
        box = loss.dual(target)
        low, high = box.lower.item(), box.upper.item()
        values = loss.elementwise(f, np.full_like(f, t))
        for share in (0.0, 0.3, 0.8, 1.0):
            a = low + share * (high - low)
            supremum = (-a * f - values).max()
            expected = box.epsilon * abs(a) - box.linear.item() * a
            assert supremum == pytest.approx(expected, abs=0.011)  # one step of the grid
        for a in (low - 0.1, high + 0.1):
            assert (-a * f - values).max() > 90


@every("loss", KINKED, ids=repr)
def test_minus_the_derivative_lies_in_the_box(loss):
    f, t = case(loss)
    box, a = loss.dual(t), -loss.derivative(f, t)
    assert (box.lower <= a).all()
    assert (a <= box.upper).all()
    # Fenchel-Young holds with equality there.
    conjugate = box.epsilon * np.abs(a) - box.linear * a
    np.testing.assert_allclose(loss.elementwise(f, t) + conjugate, -a * f, atol=1e-12)


@every("loss", [LogLoss(), SquaredError(), SquaredHinge()], ids=repr)
@every("p", [0.01, 0.2, 0.5, 0.77, 0.99])
def test_the_population_minimiser_recovers_the_probability(loss, p):
    one = np.ones((1, 1))

    def risk(f):
        return p * loss.value(f * one, one) + (1 - p) * loss.value(f * one, -one)

    best = minimize_scalar(risk, bounds=(-10, 10), method="bounded", options={"xatol": 1e-9}).x
    np.testing.assert_allclose(loss.probability(best * one), [[1 - p, p]], atol=1e-4)


@every("quantile", [0.1, 0.5, 0.8])
def test_the_population_minimiser_of_the_pinball_loss_is_the_quantile(quantile):
    t = rng.normal(size=(1001, 1))
    values = [Pinball(quantile=quantile).value(np.full_like(t, f), t) for f in t[:, 0]]
    best = t[int(np.argmin(values)), 0]
    assert best == pytest.approx(np.quantile(t, quantile), abs=0.02)


@every("loss", [loss for loss in LOSS if loss.has_probability], ids=repr)
@every("outputs", [1, 3, 5])
def test_probabilities_are_between_zero_and_one_and_add_up(loss, outputs):
    if isinstance(loss, Softmax) and outputs == 1:
        outputs = 2
    f = np.vstack([3 * rng.normal(size=(100, outputs)), np.full((1, outputs), -50.0)])
    p = loss.probability(f)
    assert p.shape == (101, max(outputs, 2))
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    sure = (np.abs(p - p.max(axis=1, keepdims=True)) < 1e-9).sum(axis=1) == 1
    np.testing.assert_array_equal(p.argmax(axis=1)[sure], loss.predict(f)[sure])


@every("loss", [*MARGIN, Softmax()], ids=repr)
@every("n_classes", [2, 3, 6])
def test_targets_as_decision_values_predict_their_own_class(loss, n_classes):
    codes = rng.integers(0, n_classes, 50)
    targets = loss.encode(codes, n_classes)
    columns = 1 if n_classes == 2 and not loss.coupled else n_classes
    assert targets.shape == (50, columns)
    assert set(np.unique(targets)) == ({0.0, 1.0} if loss.coupled else {-1.0, 1.0})
    np.testing.assert_array_equal(loss.predict(targets), codes)
    # A confident right answer costs less than a confident wrong one.
    assert loss.value(targets, targets) < loss.value(-targets, targets)


@every("loss", [loss for loss in LOSS if loss.tasks == ("regression",)], ids=repr)
def test_losses_for_regression_refuse_classes(loss):
    with pytest.raises(ValueError, match="loss for regression, not for classes"):
        loss.encode(np.array([0, 1]), 2)


@every("loss", LOSS, ids=repr)
def test_float32_stays_float32(loss):
    f, t = (part.astype(np.float32) for part in case(loss))
    assert loss.derivative(f, t).dtype == np.float32
    if loss.curvature is not None:
        assert loss.second_derivative(f, t).dtype == np.float32
        assert loss.hessian_product(f, t, f).dtype == np.float32
    else:
        assert loss.dual(t).upper.dtype == np.float32
    assert isinstance(loss.value(f, t), float)


@every("loss", [LogLoss(), Softmax()], ids=repr)
@every("dtype", [np.float32, np.float64])
def test_huge_decision_values_do_not_overflow(loss, dtype):
    f = np.array([[1e4, -1e4], [-1e4, 1e4]], dtype)
    t = loss.encode(np.array([0, 0]), 3)[:, :2].astype(dtype)
    assert np.isfinite(loss.value(f, t))
    assert np.isfinite(loss.derivative(f, t)).all()
    assert np.isfinite(loss.hessian_product(f, t, f)).all()
    assert np.isfinite(loss.probability(f)).all()


@every(
    ("loss", "problem"),
    [
        (Huber(delta=0.0), "Huber needs delta > 0, got 0.0"),
        (Huber(delta=np.nan), "Huber needs delta > 0"),
        (EpsilonInsensitive(epsilon=-0.1), "EpsilonInsensitive needs epsilon >= 0, got -0.1"),
        (Pinball(quantile=0.0), "Pinball needs 0 < quantile < 1, got 0.0"),
        (Pinball(quantile=1.0), "Pinball needs 0 < quantile < 1"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(loss, problem):
    with pytest.raises(ValueError, match=problem):
        loss.check()


@every("loss", LOSS, ids=repr)
def test_valid_parameters_pass(loss):
    loss.check()
