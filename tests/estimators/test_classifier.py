"""Classes in, classes out."""

import numpy as np
import pytest
from helpers import table
from sklearn.metrics import log_loss

from rkhs import KernelClassifier
from rkhs.losses import LogLoss, Softmax


@pytest.mark.parametrize(
    "labels", [["b", "a", "c"], [30, -1, 2], [3.0, 1.0, -2.0]], ids=["text", "int", "float"]
)
@pytest.mark.parametrize("loss", ["log_loss", "hinge", "squared_hinge", "squared_error"])
def test_labels_of_any_kind_and_order(labels, loss):
    X, _, codes = table()
    y = np.array(labels)[codes]
    model = KernelClassifier(loss=loss, alpha=1e-6, length_scale=1.0).fit(X, y)
    np.testing.assert_array_equal(model.classes_, np.sort(labels))
    assert model.score(X, y) > 0.9
    values = model.decision_function(X)
    np.testing.assert_array_equal(model.classes_[values.argmax(axis=1)], model.predict(X))


def test_log_loss_is_logistic_for_two_classes_and_softmax_for_more():
    X, _, codes = table()
    assert isinstance(KernelClassifier().fit(X, codes > 0).loss_, LogLoss)
    assert isinstance(KernelClassifier().fit(X, codes).loss_, Softmax)


@pytest.mark.parametrize("loss", ["log_loss", "softmax", "squared_error", "squared_hinge"])
def test_probabilities_are_calibrated(loss):
    """On data with known probabilities, the log loss comes close to the entropy."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(1500, 1))
    truth = 1 / (1 + np.exp(-1.5 * np.sin(2 * X[:, 0])))
    y = rng.uniform(size=1500) < truth
    model = KernelClassifier(loss=loss, alpha=1e-3, length_scale=0.7).fit(X, y)
    found = model.predict_proba(X)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert np.abs(found[:, 1] - truth).mean() < 0.05
    assert log_loss(y, found) < log_loss(y, np.full(1500, y.mean())) - 0.05
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), found)


def test_hinge_has_no_probabilities():
    X, _, codes = table()
    model = KernelClassifier(loss="hinge").fit(X, codes)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba"):
        model.predict_proba(X)


def test_binary_softmax_is_logistic_with_half_the_penalty():
    """f_1 - f_0 of the softmax solution is the logistic solution for 2 alpha."""
    X, _, codes = table()
    y = codes > 0
    two = KernelClassifier(loss="softmax", alpha=1e-2).fit(X, y)
    one = KernelClassifier(loss="log_loss", alpha=5e-3).fit(X, y)
    np.testing.assert_allclose(two.predict_proba(X), one.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(two.decision_function(X), one.decision_function(X), atol=1e-5)


def test_class_weight_is_a_sample_weight_by_class():
    X, _, codes = table()
    factors = {0: 1.0, 1: 3.0, 2: 0.5}
    by_class = KernelClassifier(class_weight=factors).fit(X, codes)
    by_row = KernelClassifier().fit(X, codes, [factors[c] for c in codes])
    np.testing.assert_allclose(by_class.predict_proba(X), by_row.predict_proba(X), rtol=1e-8)
    balanced = KernelClassifier(class_weight="balanced").fit(X, codes)
    counts = np.bincount(codes)
    by_row = KernelClassifier().fit(X, codes, (len(codes) / (3 * counts))[codes])
    np.testing.assert_allclose(balanced.predict_proba(X), by_row.predict_proba(X), rtol=1e-8)


def test_sorted_labels_do_not_disturb_stochastic_solvers():
    X, _, codes = table(n_rows=600)
    order = np.argsort(codes)
    model = KernelClassifier(
        features="nystrom", solver="sgd", loss="hinge", length_scale=1.0, random_state=0
    )
    mixed = model.fit(X, codes).score(X, codes)
    assert mixed > 0.85
    assert model.fit(X[order], codes[order]).score(X, codes) > mixed - 0.03
