"""Length scales, penalty and features found from the data."""

from rkhs.search._leave_one_out import LeaveOneOut
from rkhs.search._scales import Scales, learn_scales
from rkhs.search._search import Choice, learn_kernel, search, search_bytes, unsearched

__all__ = [
    "Choice",
    "LeaveOneOut",
    "Scales",
    "learn_kernel",
    "learn_scales",
    "search",
    "search_bytes",
    "unsearched",
]
