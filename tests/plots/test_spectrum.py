"""The picture of a spectrum shows what the history holds."""

import io
import sys
from unittest.mock import MagicMock

import numpy as np
import pytest
from helpers import table

from rkhs import KernelRegressor
from rkhs.plots import spectrum


def test_spectrum_before_and_after_flattening():
    X, y, _ = table(400)
    model = KernelRegressor(solver="eigenpro", max_epochs=1, random_state=0).fit(X, y)
    ax = MagicMock()
    assert spectrum(model, ax) is ax
    (number, values), (_, flattened) = (call.args for call in ax.loglog.call_args_list)
    rank = model.history_[0]["rank"]
    assert np.array_equal(values, model.history_[0]["spectrum"])
    assert number[0] == 1
    assert (flattened[:rank] == values[rank]).all()
    assert (flattened[rank:] == values[rank:]).all()


def test_a_picture_can_be_drawn():
    matplotlib = pytest.importorskip("matplotlib", reason="plots are an extra")
    matplotlib.use("Agg")
    X, y, _ = table(200)
    model = KernelRegressor(solver="eigenpro", max_epochs=1, random_state=0).fit(X, y)
    ax = spectrum(model)
    values, flattened = (line.get_ydata() for line in ax.get_lines())
    assert np.array_equal(values, model.history_[0]["spectrum"])
    assert flattened.max() == values[model.history_[0]["rank"]]
    assert "critical batch" in ax.get_title()
    file = io.BytesIO()
    ax.figure.savefig(file)
    assert file.getvalue().startswith(b"\x89PNG")
    matplotlib.pyplot.close(ax.figure)


def test_what_is_missing_is_said(monkeypatch):
    X, y, _ = table(100)
    with pytest.raises(ValueError, match='solver="eigenpro"'):
        spectrum(KernelRegressor(solver="exact").fit(X, y))
    model = KernelRegressor(solver="eigenpro", max_epochs=1).fit(X, y)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"rkhs\[plot\]"):
        spectrum(model)
