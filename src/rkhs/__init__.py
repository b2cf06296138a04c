"""Kernel machines on millions of rows, behind scikit-learn's interface."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rkhs.estimators import KernelClassifier, KernelRegressor
    from rkhs.persistence import load, save

__all__ = ["KernelClassifier", "KernelRegressor", "load", "save"]
__version__ = "0.1.0"

# Loaded at first use: `import rkhs` and `rkhs --help` wait for nothing they do not need.
_HOMES = {
    "KernelClassifier": "rkhs.estimators",
    "KernelRegressor": "rkhs.estimators",
    "load": "rkhs.persistence",
    "save": "rkhs.persistence",
}
_PACKAGES = ("datasets", "estimators", "features", "kernels", "losses", "persistence", "solvers")


def __getattr__(name):
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in _PACKAGES:
        value = import_module(f"rkhs.{name}")
    else:
        raise AttributeError(f"module 'rkhs' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_HOMES, *_PACKAGES})
