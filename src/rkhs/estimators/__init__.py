"""scikit-learn's manners around a fitted function, and nothing else."""

from rkhs.estimators._classifier import KernelClassifier
from rkhs.estimators._regressor import KernelRegressor

__all__ = ["KernelClassifier", "KernelRegressor"]
