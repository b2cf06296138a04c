"""Feature maps: scikit-learn transformers that can also be multiplied."""

from rkhs.features._base import FeatureMap
from rkhs.features._binning import RandomBinning
from rkhs.features._concatenated import Concatenated
from rkhs.features._fourier import RandomFourier
from rkhs.features._nystrom import Nystrom

__all__ = ["Concatenated", "FeatureMap", "Nystrom", "RandomBinning", "RandomFourier"]

FEATURES: dict[str, type[FeatureMap]] = {
    "random_fourier": RandomFourier,
    "random_binning": RandomBinning,
    "nystrom": Nystrom,
}
