"""Length scales, penalty and features found from the data."""

from rkhs.search._leave_one_out import LeaveOneOut
from rkhs.search._mapped import learn_mapped_kernel, mapped_bytes
from rkhs.search._metric import Metric, gradient_outer_product, learn_metric
from rkhs.search._relations import unrelated_columns
from rkhs.search._scales import Scales, learn_scales, refine_scales
from rkhs.search._search import Choice, learn_kernel, search, search_bytes, unsearched

__all__ = [
    "Choice",
    "LeaveOneOut",
    "Metric",
    "Scales",
    "gradient_outer_product",
    "learn_kernel",
    "learn_mapped_kernel",
    "learn_metric",
    "learn_scales",
    "mapped_bytes",
    "refine_scales",
    "search",
    "search_bytes",
    "unrelated_columns",
    "unsearched",
]
