"""Categorical columns of data frames as codes.

A table's categories are a list with an entry for each column: None for a column of numbers,
and for a categorical one the list of its categories, whose places are their codes. Categories
are strings, numbers and booleans, or None for missing values; of others (intervals, dates) it
is the text that counts.
"""

import numpy as np
from sklearn.utils.validation import _check_feature_names, _check_n_features

UNSEEN = -1  # code of a category that is not in the list
_DATES = ("date", "time", "duration", "period")  # how the names of their types begin
_TEXT = ("str", "large_str", "categor", "enum", "dictionary")
_OTHER = ("struct", "list", "array", "map", "binary", "interval", "time32", "time64")
_DAY = 86_400e6  # microseconds
_MOST = 2**24  # codes that float32 tells apart


def learn_categories(X, known=None):
    """A table with codes for the categories of its text and categorical columns.

    Columns of a data frame that hold neither numbers nor text are refused.

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
    """A data frame with dates, times, durations and (the beginnings of) periods in days.

    Other tables are left as they are, and so are columns of Python's own dates.

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
    places = [j for j, kind in enumerate(_kinds(X)) if _is_dates(kind)]
    return _replaced(X, {j: _days(_column(X, j)) for j in places}) if places else X


def _is_dates(kind) -> bool:
    return kind.startswith(_DATES) and not kind.startswith(_OTHER)


def _days(column):
    """A column of dates or durations in days, NaN where it has none."""
    if hasattr(column, "iloc"):
        kind = str(column.dtype).lower()
        if kind.startswith("period"):
            column = column.dt.to_timestamp()
        elif "pyarrow" in kind:
            durations = kind.startswith("duration")
            column = column.astype("timedelta64[us]" if durations else "datetime64[us, UTC]")
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
    """Say which column of a data frame holds what is no number, text or category."""
    text = text_columns(X)
    for j, kind in enumerate(_kinds(X)):
        # Objects of pandas may be anything: missing values, numbers, dates.
        plain = kind == "object" and hasattr(X, "iloc")
        if j in text or not (kind == "object" or _is_other(kind)):
            continue
        column = _column(X, j)
        if plain:
            value = next((value for value in column if not _is_number(value)), None)
        else:
            known = column.dropna() if hasattr(X, "iloc") else column.drop_nulls()
            value = next(iter(known.head(1).to_list()), None)
        if not plain or value is not None:
            raise ValueError(
                f"Column {X.columns[j]!r} holds values like {value!r:.80} (type {kind}), and a "
                "kernel needs numbers. Convert it first (pandas.to_numeric, pandas.to_datetime; "
                "rkhs.data.dates_as_numbers makes numbers of dates), or leave it out."
            )


def _is_other(kind) -> bool:
    return kind.startswith((*_OTHER, *_DATES)) or "list" in kind or "binary" in kind


def _is_number(value) -> bool:
    try:
        return value is None or isinstance(float(value), float)
    except (TypeError, ValueError, OverflowError):
        return False


def text_columns(X) -> list[int]:
    """Which columns of a data frame hold text or are of a categorical type."""
    if not _is_frame(X):
        return []
    return [
        j
        for j, kind in enumerate(_kinds(X))
        if (kind.startswith(_TEXT) and not kind.startswith("struct"))
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
