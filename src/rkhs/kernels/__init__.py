"""Kernels k(x, x'): exact values in tiles, and the law of their random features."""

from rkhs.kernels._base import Kernel
from rkhs.kernels._composite import Product, Scaled, Sum
from rkhs.kernels._mapped import Mapped
from rkhs.kernels._product import Cauchy, Laplacian
from rkhs.kernels._radial import Exponential, Gaussian, Matern, RationalQuadratic

__all__ = [
    "Cauchy",
    "Exponential",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "Mapped",
    "Matern",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "Sum",
]

KERNELS: dict[str, type[Kernel]] = {
    "gaussian": Gaussian,
    "rbf": Gaussian,
    "laplacian": Laplacian,
    "exponential": Exponential,
    "cauchy": Cauchy,
    "rational_quadratic": RationalQuadratic,
    "matern": Matern,
}
