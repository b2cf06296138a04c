"""Pictures of fitted models; they need the extra `plot` (matplotlib)."""

from rkhs.plots._importances import importances
from rkhs.plots._spectrum import spectrum

__all__ = ["importances", "spectrum"]
