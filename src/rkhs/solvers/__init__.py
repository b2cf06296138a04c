"""Solvers: one method a file, immutable parameters, state apart."""

from rkhs.solvers._base import Solver
from rkhs.solvers._conjugate_gradient import ConjugateGradient
from rkhs.solvers._coordinate_descent import CoordinateDescent
from rkhs.solvers._doubly_stochastic import CDSG, DSG, UDSG
from rkhs.solvers._eigenpro import EigenPro
from rkhs.solvers._exact import Exact
from rkhs.solvers._newton_cg import NewtonCG
from rkhs.solvers._stochastic import SGD, SVRG, Pegasos

__all__ = [
    "CDSG",
    "DSG",
    "SGD",
    "SVRG",
    "UDSG",
    "ConjugateGradient",
    "CoordinateDescent",
    "EigenPro",
    "Exact",
    "NewtonCG",
    "Pegasos",
    "Solver",
]

SOLVERS: dict[str, type[Solver]] = {
    "exact": Exact,
    "conjugate_gradient": ConjugateGradient,
    "newton_cg": NewtonCG,
    "coordinate_descent": CoordinateDescent,
    "eigenpro": EigenPro,
    "sgd": SGD,
    "pegasos": Pegasos,
    "svrg": SVRG,
    "dsg": DSG,
    "udsg": UDSG,
    "cdsg": CDSG,
}
