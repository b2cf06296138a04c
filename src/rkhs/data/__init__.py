"""Row sources: where blocks of rows come from."""

from rkhs.data._categories import (
    dates_as_numbers,
    encode_categories,
    extends,
    learn_categories,
    refuse_text,
)
from rkhs.data._parquet import map_parquet
from rkhs.data._preparation import Preparation, PreparedRows
from rkhs.data._rows import RowSource, refuse_extreme, refuse_huge, row_keys, stack

__all__ = [
    "Preparation",
    "PreparedRows",
    "RowSource",
    "dates_as_numbers",
    "encode_categories",
    "extends",
    "learn_categories",
    "map_parquet",
    "refuse_extreme",
    "refuse_huge",
    "refuse_text",
    "row_keys",
    "stack",
]
