"""Tables to try things on: named ones from disk or the network, and a generated one."""

from rkhs.datasets._generated import robot_arm
from rkhs.datasets._named import Dataset, load

__all__ = ["Dataset", "load", "robot_arm"]
