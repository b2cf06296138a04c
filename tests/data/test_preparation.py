"""Columns of raw tables."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from rkhs.data import Preparation, PreparedRows, RowSource, dates_as_numbers

rng = np.random.default_rng(0)
N_ROWS = 1000
X = np.stack([rng.normal(5.0, 2.0, N_ROWS), np.exp(2 * rng.normal(size=N_ROWS))], axis=1)
X = np.column_stack([X, rng.integers(0, 4, N_ROWS)])
CATEGORICAL = np.array([False, False, True])


def fitted(X, weight=None, missing=(False, False, False)):
    weight = np.ones(len(X)) if weight is None else weight
    return Preparation().fit_rows(X, weight, CATEGORICAL, np.array(missing))


def test_numbers_are_standardised_and_codes_stay():
    out = fitted(X).apply(X)
    np.testing.assert_allclose(out[:, 0], (X[:, 0] - np.median(X[:, 0])) / X[:, 0].std(), atol=0.01)
    np.testing.assert_array_equal(out[:, 2], X[:, 2])


def test_a_heavy_tail_gets_its_logarithm_beside_it():
    preparation = fitted(X)
    assert preparation.heavy_.tolist() == [1]
    assert preparation.origin_.tolist() == [0, 1, 2, 1]
    centred = X[:, 1] - np.median(X[:, 1])
    distance = centred / np.median(np.abs(centred))
    np.testing.assert_allclose(preparation.apply(X)[:, 3], np.arcsinh(distance), atol=0.02)
    far = np.array([[5.0, 1e6, 0], [5.0, 1e7, 0], [5.0, 1e300, 0], [5.0, -1e300, 0]])
    beside = preparation.apply(far)[:, 3]
    assert beside[1] - beside[0] == pytest.approx(np.log(10.0), rel=1e-3)
    assert np.isfinite(beside).all()


def test_the_spread_of_a_column_of_mostly_one_value_is_that_of_the_others():
    counts = X.copy()
    counts[:900, 1], counts[900:, 1] = 0.0, np.arange(1, 101)
    np.testing.assert_allclose(fitted(counts).apply(counts)[:900, 3], 0.0)
    assert fitted(counts).spread_[0] == pytest.approx(50.0, abs=1)


def test_a_gap_is_the_median_and_is_marked():
    holes = X.copy()
    holes[::3, 0] = np.nan
    preparation = fitted(holes, missing=(True, False, False))
    out = preparation.apply(holes)
    assert (out[::3, 0] == 0).all()
    np.testing.assert_array_equal(out[:, 3], np.isnan(holes[:, 0]))
    assert np.isfinite(out).all()


def test_weights_are_repetitions():
    weight = rng.integers(1, 4, N_ROWS)
    once, many = fitted(X, weight.astype(float)), fitted(np.repeat(X, weight, axis=0))
    np.testing.assert_allclose(once.apply(X), many.apply(X), rtol=1e-5, atol=1e-6)


def test_prepared_rows_are_read_in_blocks():
    preparation = fitted(X)
    rows = PreparedRows(X, preparation, rows=np.array([7, 3]), categories=[None, None, ["a"]])
    assert rows.shape == (2, 4)
    assert rows.categorical.tolist() == [False, False, True, False]
    np.testing.assert_array_equal(rows[0:2], preparation.apply(RowSource(X)[np.array([7, 3])]))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_dates_are_days(library):
    frame = pd.DataFrame(
        {
            "at": pd.to_datetime(["1970-01-02 06:00", None]),
            "zone": pd.to_datetime(["1970-01-02 06:00", None]).tz_localize("Europe/Rome"),
            "long": pd.to_timedelta(["36h", None]),
            "x": [1.0, 2.0],
        }
    )
    if library == "polars":
        frame = pl.from_pandas(frame).with_columns(
            day=pl.Series(["1970-01-03", None]).str.to_date()
        )
    else:
        frame["month"] = pd.PeriodIndex(["1970-02", None], freq="M")
        frame["day"] = pd.Series([datetime.date(1970, 1, 3), None], dtype="date32[pyarrow]")
        frame["hours"] = frame["long"].astype("duration[us][pyarrow]")
    out = dates_as_numbers(frame)
    expected = {"at": 1.25, "zone": 1.25 - 1 / 24, "long": 1.5, "x": 1.0, "day": 2.0}
    if library == "pandas":
        expected |= {"month": 31.0, "hours": 1.5}
    for name, value in expected.items():
        assert out[name][0] == pytest.approx(value)
        assert name == "x" or np.isnan(out[name][1])
    assert dates_as_numbers(X) is X


def test_held_rows_are_the_prepared_ones_and_units_lead_back_to_the_table():
    X = np.random.default_rng(0).normal(5.0, [[1.0, 30.0]], size=(200, 2))
    X[3, 1] = np.nan
    gaps, numbers = np.array([False, True]), np.array([False, False])
    preparation = Preparation().fit_rows(X, np.ones(200), numbers, gaps)
    rows = PreparedRows(X, preparation, rows=np.arange(100))
    np.testing.assert_array_equal(rows.held()[5:9], rows[5:9])
    differences = (rows[:50] - rows[50:100])[:, :2] * rows.units[:2]
    known = ~np.isnan(X[:50] - X[50:100])
    np.testing.assert_allclose(differences[known], (X[:50] - X[50:100])[known], atol=1e-4)
    assert np.isnan(rows.units[2])  # where values are missing
