"""Categories become codes that mean the same in every frame."""

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator

from rkhs.data import encode_categories, extends, learn_categories, refuse_text
from rkhs.data._categories import UNSEEN, text_columns

CITIES = ["Rome", "Oslo", None, "Rome", "Bern"]
KINDS = {
    "pandas object": lambda v: pd.DataFrame({"city": pd.Series(v, dtype=object)}),
    "pandas string": lambda v: pd.DataFrame({"city": pd.Series(v, dtype="string")}),
    "pandas category": lambda v: pd.DataFrame({"city": pd.Categorical(v)}),
    "pandas category, in another order": lambda v: pd.DataFrame(
        {"city": pd.Categorical(v, categories=["Ulm", "Rome", "Bern", "Oslo"])}
    ),
    "polars string": lambda v: pl.DataFrame({"city": v}),
    "polars categorical": lambda v: pl.DataFrame({"city": v}, schema={"city": pl.Categorical}),
    "polars enum": lambda v: pl.DataFrame(
        {"city": v}, schema={"city": pl.Enum(["Ulm", "Rome", "Bern", "Oslo"])}
    ),
}
ALL = pytest.mark.parametrize("kind", KINDS)


def fitted(frame):
    estimator = BaseEstimator()
    estimator.feature_names_in_ = np.array(list(frame.columns), dtype=object)
    estimator.n_features_in_ = frame.shape[1]
    return estimator


def codes(frame, column="city"):
    return np.asarray(frame[column]).tolist()


@ALL
def test_codes_depend_on_the_values_alone(kind):
    frame, categories = learn_categories(KINDS[kind](CITIES))
    assert categories == [["Bern", "Oslo", "Rome", None]]
    assert codes(frame) == [2, 1, 3, 2, 0]


@ALL
def test_a_category_that_was_not_there_has_a_code_of_its_own(kind):
    train = KINDS[kind](["Rome", "Oslo"])
    _, categories = learn_categories(train)
    coded = encode_categories(KINDS[kind](CITIES), categories, fitted(train))
    assert codes(coded) == [1, 0, UNSEEN, 1, UNSEEN]


@ALL
def test_learning_more_keeps_the_codes(kind):
    _, before = learn_categories(KINDS[kind](["Rome", "Oslo"]))
    frame, categories = learn_categories(KINDS[kind](CITIES), known=before)
    assert categories == [["Oslo", "Rome", "Bern", None]]
    assert codes(frame) == [1, 0, 3, 1, 2]
    assert extends(categories, before)
    assert not extends(before, categories)
    assert not extends(None, before)
    assert not extends([["Rome"]], before)
    assert not extends([None], before)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3, 1, 3], [1, 3]),
        ([0.5, np.nan, -2.0], [-2.0, 0.5, None]),
        ([True, False, True], [False, True]),
        (["b", 2, True, "a", None], [True, 2, "a", "b", None]),
        ([None, None, None], [None]),
        (pd.to_datetime(["2024-05-01", None]), ["2024-05-01 00:00:00", None]),
    ],
)
def test_categories_are_plain_values_in_order(values, expected):
    frame = pd.DataFrame({"city": pd.Series(values).astype("category")})
    _, categories = learn_categories(frame)
    assert categories == [expected]
    assert list(map(type, categories[0])) == list(map(type, expected))


def test_intervals_are_known_by_their_text():
    frame = pd.DataFrame({"age": pd.cut(pd.Series([1.0, 5.0, 2.0]), [0, 3, 6])})
    coded, categories = learn_categories(frame)
    assert categories == [["(0, 3]", "(3, 6]"]]
    assert codes(coded, "age") == [0, 1, 0]


def test_numbers_stay_and_the_frame_is_not_changed():
    frame = pd.DataFrame({"age": [1, 2], "city": ["Rome", "Oslo"], "old": [True, False]})
    before = frame.copy()
    coded, categories = learn_categories(frame)
    pd.testing.assert_frame_equal(frame, before)
    pd.testing.assert_frame_equal(coded[["age", "old"]], frame[["age", "old"]])
    assert categories == [None, ["Oslo", "Rome"], None]
    assert text_columns(pl.from_pandas(frame)) == [1]


def test_two_columns_of_one_name_are_two_columns():
    frame = pd.DataFrame([["a", 1.0, "x"], ["b", 2.0, "x"]], columns=["name", "n", "name"])
    coded, categories = learn_categories(frame)
    assert categories == [["a", "b"], None, ["x"]]
    np.testing.assert_array_equal(coded.to_numpy(), [[0, 1, 0], [1, 2, 0]])


@pytest.mark.parametrize("X", [np.eye(2), pd.DataFrame(np.eye(2)), pl.DataFrame({"a": [1.5]})])
def test_a_table_of_numbers_is_left_alone(X):
    same, categories = learn_categories(X)
    assert same is X
    assert categories is None


def test_other_columns_are_refused_in_scikit_learns_words():
    frame = pd.DataFrame({"age": [1, 2], "city": ["Rome", "Oslo"]})
    _, categories = learn_categories(frame)
    for other, words in [
        (frame[["city", "age"]], "same order"),
        (frame[["city"]], "missing"),
        (frame.to_numpy(), "data frame with categorical columns, and got ndarray"),
    ]:
        with pytest.raises(ValueError, match=words):
            encode_categories(other, categories, fitted(frame))


@pytest.mark.parametrize(
    ("values", "example"),
    [
        (pd.Series([[1, 2], [3]]), r"\[1, 2\]"),
        (pd.Series([1.0, {"a": 1}]), r"\{'a': 1\}"),
        (pd.Series([datetime.time(5), None]), r"datetime\.time\(5, 0\)"),
        (
            pd.Series([None, datetime.date(2020, 1, 5)]),
            r"datetime\.date\(2020, 1, 5\).*to_datetime",
        ),
        (pd.Series(pd.to_datetime(["2020-01-05", None])), "Timestamp.*dates_as_numbers"),
        (pd.Series(pd.PeriodIndex(["2020-01", None], freq="M")), "Period.*dates_as_numbers"),
        (pd.Series([1.5, pd.NA], dtype=object), "<NA>.*to_numeric"),
        (pd.Series([10**400, 1]), "10000"),
        (pd.Series(pd.arrays.IntervalArray.from_breaks([0, 1, 2])), r"Interval\(0, 1"),
        (pl.Series([[1, 2], [3]]), r"\[1, 2\]"),
        (pl.Series([{"a": 1}, {"a": 2}]), r"\{'a': 1\}"),
        (pl.Series([b"x", b"y"]), "b'x'"),
    ],
)
def test_columns_of_other_things_are_named(values, example):
    kind = pl.DataFrame if isinstance(values, pl.Series) else pd.DataFrame
    frame = kind({"age": [1, 2], "other": values})
    for refuse in (learn_categories, refuse_text):
        with pytest.raises(ValueError, match=f"'other' holds values like .*{example}"):
            refuse(frame)


@pytest.mark.parametrize(
    "values", [[None, True], [decimal.Decimal("1.5"), None], [np.float32(1), 2]]
)
def test_objects_that_are_numbers_are_left_alone(values):
    frame = pd.DataFrame({"n": pd.Series(values, dtype=object)})
    assert learn_categories(frame)[0] is frame


def test_rows_that_are_not_there_yet_are_asked_for():
    with pytest.raises(TypeError, match=r"X\.collect\(\)"):
        learn_categories(pl.DataFrame({"a": [1.5]}).lazy())
