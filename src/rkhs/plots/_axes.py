"""Where a picture is drawn if no axes are given."""


def axes():
    """New axes, if matplotlib is there."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError(
            'Plots need matplotlib. Install it with pip install "rkhs[plot]", or give axes.'
        ) from None
    return pyplot.subplots()[1]
