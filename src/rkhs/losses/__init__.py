"""Losses: value, derivative, curvature, prediction; one class each."""

from rkhs.losses._absolute import AbsoluteError, EpsilonInsensitive, Pinball
from rkhs.losses._base import Box, Loss
from rkhs.losses._margin import Hinge, LogLoss, SquaredHinge
from rkhs.losses._softmax import Softmax
from rkhs.losses._squared import Huber, SquaredError

__all__ = [
    "AbsoluteError",
    "Box",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "LogLoss",
    "Loss",
    "Pinball",
    "Softmax",
    "SquaredError",
    "SquaredHinge",
]

LOSSES: dict[str, type[Loss]] = {
    "squared_error": SquaredError,
    "log_loss": LogLoss,
    "softmax": Softmax,
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "huber": Huber,
    "epsilon_insensitive": EpsilonInsensitive,
    "absolute_error": AbsoluteError,
    "pinball": Pinball,
}
