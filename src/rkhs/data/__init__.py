"""Row sources: where blocks of rows come from."""

from rkhs.data._rows import RowSource, row_keys

__all__ = ["RowSource", "row_keys"]
