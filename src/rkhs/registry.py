"""Objects from names: the one place where a string becomes a kernel, loss, map or solver."""

from sklearn.base import clone


def build(spec, registry: dict[str, type], base: type, axis: str, **defaults):
    """A fresh object from a name or a copy of one built by hand.

    Parameters
    ----------
    spec : str or instance of `base`
    registry : dict
        Names and classes.
    base : type
        What a hand-built object must be.
    axis : str
        The argument's name, for the error.
    **defaults
        Arguments for an object built from its name.
    """
    if isinstance(spec, base):
        return clone(spec)
    if isinstance(spec, str) and spec in registry:
        return registry[spec](**defaults)
    raise ValueError(
        f"{axis}={spec!r} is not known. Use one of {', '.join(map(repr, registry))}, "
        f"or an instance of {base.__name__} from its module."
    )
