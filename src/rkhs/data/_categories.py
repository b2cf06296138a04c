"""Categorical columns of data frames as codes.

A table's categories are a list with an entry for each column: None for a column of numbers,
and for a categorical one the list of its categories, whose places are their codes. Categories
are strings, numbers and booleans, or None for missing values; of others (intervals, dates) it
is the text that counts.
"""

import datetime

import numpy as np
from sklearn.utils.validation import _check_feature_names, _check_n_features

UNSEEN = -1  # code of a category that is not in the list
_DATES = ("date", "time", "duration", "period")  # how the names of their types begin
_DATE_OBJECTS = (datetime.date, datetime.timedelta)  # a datetime is a date
_OTHER = ("interval", "list", "struct", "array", "binary", "object")  # that may be no numbers
_DAY = 86_400e6  # microseconds
_MOST = 2**24  # codes that float32 tells apart


def learn_categories(X, known=None):
    """A table with codes for the categories of its text and categorical columns.

    Parameters
    ----------
    X : array, sparse matrix or data frame of pandas or polars
    known : list, optional
        Categories that keep their codes; others follow after them.

    Returns
    -------
    X : as given
        Where there are categorical columns a copy, with float32 codes in them.
    categories : list or None
        None where no column is categorical.

    Examples
    --------
    >>> import pandas as pd
    >>> from rkhs.data import learn_categories
    >>> frame = pd.DataFrame({"age": [31, 47, 8], "city": ["Rome", "Oslo", None]})
    >>> codes, categories = learn_categories(frame)
    >>> categories
    [None, ['Oslo', 'Rome', None]]
    >>> codes["city"].tolist()
    [1.0, 0.0, 2.0]
    """
    if not _is_frame(X):
        return X, None
    _refuse_other(X)
    if known is None or len(known) != X.shape[1]:
        known = [None] * X.shape[1]
    text = set(text_columns(X))
    categories = list(known)
    codes = {}
    for j, before in enumerate(known):
        if before is None and j not in text:
            continue
        places, distinct = _factorized(_column(X, j))
        present = distinct if (places < 0).any() else distinct[:-1]
        before = before or []
        categories[j] = before + sorted(set(present) - set(before), key=_rank)
        if len(categories[j]) > _MOST:
            raise ValueError(
                f"Column {X.columns[j]!r} has {len(categories[j]):,} categories, and at most "
                f"{_MOST:,} can be told apart. Leave it out if it only numbers the rows."
            )
        codes[j] = _codes(places, distinct, categories[j])
    return (_replaced(X, codes), categories) if codes else (X, None)


def dates_as_numbers(X):
    """A data frame with its dates, times and durations in days; other tables as they are.

    Examples
    --------
    >>> import pandas as pd
    >>> from rkhs.data import dates_as_numbers
    >>> frame = pd.DataFrame({"day": pd.to_datetime(["1970-01-02 00:00", "1970-01-03 12:00"])})
    >>> dates_as_numbers(frame)["day"].tolist()
    [1.0, 2.5]
    """
    if not _is_frame(X):
        return X
    places = [j for j, kind in enumerate(_kinds(X)) if _is_dates(kind, _column(X, j))]
    return _replaced(X, {j: _days(_column(X, j)) for j in places}) if places else X


def _is_dates(kind, column) -> bool:
    return kind.startswith(_DATES) or isinstance(_first_object(kind, column), _DATE_OBJECTS)


def _first_object(kind, column):
    """The first value of a column of Python objects that is not missing, else None."""
    if kind != "object" or not hasattr(column, "first_valid_index"):
        return None
    known = column.notna().to_numpy()
    return column.iloc[known.argmax()] if known.any() else None


def _days(column):
    """A column of dates or durations in days, NaN where it has none."""
    if hasattr(column, "iloc"):
        import pandas as pd

        kind = str(column.dtype).lower()
        if kind == "object":
            durations = isinstance(_first_object(kind, column), datetime.timedelta)
            column = (pd.to_timedelta if durations else pd.to_datetime)(column)
        elif kind.startswith("period"):
            column = column.dt.to_timestamp()
        if getattr(column.dtype, "tz", None) is not None:
            column = column.dt.tz_convert("UTC").dt.tz_localize(None)
        values = column.to_numpy()
        microseconds = values.astype(f"{values.dtype.kind}8[us]").astype(np.float64)
        return np.where(np.isnat(values), np.nan, microseconds) / _DAY
    kind = str(column.dtype)
    if kind.startswith("Duration"):
        column = column.dt.total_microseconds()
    elif kind == "Time":
        return column.to_physical().cast(float).to_numpy() / (1000 * _DAY)
    else:
        column = column.dt.epoch("us")
    return column.cast(float).to_numpy() / _DAY


def encode_categories(X, categories, estimator):
    """A table with the codes of a fit in its categorical columns; `UNSEEN` for new categories.

    Parameters
    ----------
    X : data frame of pandas or polars
    categories : list
        From `learn_categories`.
    estimator : BaseEstimator
        Fitted: the names and the number of columns must be its own.
    """
    if not _is_frame(X):
        raise ValueError(
            f"{type(estimator).__name__} was fitted to a data frame with categorical columns, and "
            f"got {type(X).__name__}. Give a data frame of pandas or polars with these columns."
        )
    _check_feature_names(estimator, X, reset=False)
    _check_n_features(estimator, X, reset=False)
    codes = {}
    for j, known in enumerate(categories):
        if known is not None:
            places, distinct = _factorized(_column(X, j))
            codes[j] = _codes(places, distinct, known)
    return _replaced(X, codes)


def extends(categories, earlier) -> bool:
    """Whether the codes of an earlier fit mean the same now; there may be more of them."""
    if categories is None or earlier is None:
        return categories is earlier
    return len(categories) == len(earlier) and all(
        now is before or (now is not None and before is not None and now[: len(before)] == before)
        for now, before in zip(categories, earlier, strict=True)
    )


def refuse_text(X) -> None:
    """Say which columns of a data frame hold text, before NumPy says only that one does."""
    text = [X.columns[j] for j in text_columns(X)]
    if text:
        raise ValueError(
            f"Text in column {', '.join(map(repr, text))}: a kernel needs numbers. Encode it "
            "first, for example with sklearn.preprocessing.OneHotEncoder in a ColumnTransformer; "
            'or use features="random_binning", which takes categorical columns as they are.'
        )
    if _is_frame(X):
        _refuse_other(X)


def _refuse_other(X) -> None:
    """Say which column of a data frame holds what is no number and no category."""
    text = text_columns(X)
    for j, kind in enumerate(_kinds(X)):
        if j in text or not kind.startswith(_OTHER):
            continue
        values = _column(X, j)
        if kind == "object" and hasattr(values, "iloc"):  # anything: pandas does not say what
            values = (value for value in values if not _is_number(value))
        else:
            values = values.head(1).to_list()
        for value in values:
            raise ValueError(
                f"Column {X.columns[j]!r} holds values like {value!r:.80} (type {kind}), which "
                "are neither numbers nor text nor dates. Leave it out, or make numbers, text or "
                "a categorical column of it first."
            )


def _is_number(value) -> bool:
    try:
        return value is None or isinstance(float(value), float)
    except (TypeError, ValueError):
        return False


def text_columns(X) -> list[int]:
    """Which columns of a data frame hold text or are of a categorical type."""
    if not _is_frame(X):
        return []
    return [
        j
        for j, kind in enumerate(_kinds(X))
        if (kind.startswith(("str", "categor", "enum")) and not kind.startswith("struct"))
        or (kind == "object" and any(isinstance(value, str) for value in _column(X, j)))
    ]


def _kinds(X) -> list[str]:
    return [str(dtype).lower() for dtype in X.dtypes]


def _is_frame(X) -> bool:
    if type(X).__name__ == "LazyFrame":
        raise TypeError("A LazyFrame has no rows yet. Give its rows: X.collect().")
    dtypes = getattr(X, "dtypes", None)
    return dtypes is not None and len(getattr(X, "columns", [])) == len(list(dtypes))


def _column(X, j):
    return X.iloc[:, j] if hasattr(X, "iloc") else X[:, j]


def _factorized(column):
    """Where each value stands among the distinct ones, the last of which is None.

    Missing values have place -1, which is that of None.
    """
    if hasattr(column, "factorize"):
        places, distinct = column.factorize()
    else:
        import polars as pl

        column = column.cast(pl.String)
        distinct = column.unique().drop_nulls()
        order = pl.Series(np.arange(len(distinct), dtype=np.int32))
        places = column.replace_strict(distinct, order, default=-1, return_dtype=pl.Int32)
        places, distinct = places.to_numpy(), distinct.to_list()
    return np.asarray(places), [*map(_plain, distinct), None]


def _plain(value):
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, (str, bool, int, float)) else str(value)


def _rank(value):
    """Numbers first, then strings, then missing values."""
    return value is None, isinstance(value, str), value if value is not None else 0


def _codes(places, distinct, known):
    code = {category: float(i) for i, category in enumerate(known)}
    table = np.array([code.get(value, UNSEEN) for value in distinct], np.float32)
    return table[places]


def _replaced(X, codes):
    """The frame with other values in some columns."""
    if hasattr(X, "iloc"):
        X = X.copy(deep=False)
        for j, values in codes.items():
            X.isetitem(j, values)
        return X
    import polars as pl

    return X.with_columns([pl.Series(X.columns[j], values) for j, values in codes.items()])
