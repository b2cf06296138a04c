"""Row sources: where blocks of rows come from."""

from rkhs.data._rows import RowSource, refuse_text, row_keys

__all__ = ["RowSource", "refuse_text", "row_keys"]
