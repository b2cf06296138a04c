"""Row sources: where blocks of rows come from."""

from rkhs.data._categories import encode_categories, extends, learn_categories, refuse_text
from rkhs.data._rows import RowSource, row_keys, stack

__all__ = [
    "RowSource",
    "encode_categories",
    "extends",
    "learn_categories",
    "refuse_text",
    "row_keys",
    "stack",
]
