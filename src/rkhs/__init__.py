"""Kernel machines on millions of rows, behind scikit-learn's interface."""

from rkhs.estimators import KernelClassifier, KernelRegressor

__all__ = ["KernelClassifier", "KernelRegressor"]
__version__ = "0.1.0"
