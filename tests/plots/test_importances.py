"""The picture of importances shows what the model holds."""

import io
import sys
from unittest.mock import MagicMock

import numpy as np
import pandas as pd
import pytest

from rkhs import KernelRegressor
from rkhs.plots import importances


def fitted(n_columns, names=None):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, n_columns))
    y = 2 * X[:, 1] + X[:, 0]
    X = X if names is None else pd.DataFrame(X, columns=names)
    return KernelRegressor(length_scale="learned", random_state=0).fit(X, y)


def test_bars_are_the_importances_from_the_largest_down():
    model, ax = fitted(3, ["weak", "strong", "idle"]), MagicMock()
    assert importances(model, ax) is ax
    place, lengths = ax.barh.call_args.args
    ticks, names = ax.set_yticks.call_args.args
    assert list(names) == ["strong", "weak", "idle"]
    assert np.array_equal(lengths, model.feature_importances_[[1, 0, 2]])
    assert np.array_equal(place, ticks)
    assert (np.diff(lengths) < 0).all()
    ax.invert_yaxis.assert_called_once_with()
    assert "100% of all 3 columns" in ax.set_title.call_args.args[0]


def test_of_many_columns_the_thirty_largest_are_shown():
    model, ax = fitted(40), MagicMock()
    importances(model, ax)
    _, lengths = ax.barh.call_args.args
    _, names = ax.set_yticks.call_args.args
    assert len(lengths) == len(names) == 30
    assert list(names[:2]) == ["1", "0"]
    assert lengths.min() >= np.sort(model.feature_importances_)[10]
    assert "30 that count most" in ax.set_title.call_args.args[0]


def test_a_picture_can_be_drawn():
    matplotlib = pytest.importorskip("matplotlib", reason="plots are an extra")
    matplotlib.use("Agg")
    model = fitted(3, ["weak", "strong", "idle"])
    ax = importances(model)
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == sorted(model.feature_importances_, reverse=True)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["strong", "weak", "idle"]
    assert ax.yaxis_inverted()
    file = io.BytesIO()
    ax.figure.savefig(file)
    assert file.getvalue().startswith(b"\x89PNG")
    matplotlib.pyplot.close(ax.figure)


def test_what_is_missing_is_said(monkeypatch):
    X = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(ValueError, match='length_scale="learned"'):
        importances(KernelRegressor(solver="exact").fit(X, X[:, 0]))
    model = fitted(2)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"rkhs\[plot\]"):
        importances(model)
