"""A progress bar for fits that take more than two seconds."""

import sys
import time

from sklearn.callback import ProgressBar

_DELAY = 2.0


class DelayedProgressBar:
    """scikit-learn's progress bar, shown once a fit has taken `delay` seconds."""

    def __init__(self, delay=_DELAY):
        self.delay = delay
        self._bar = ProgressBar(max_propagation_depth=0)
        self._begin = 0.0
        self._root = None
        self._shown = False

    def setup(self, estimator, context):
        self._begin = time.perf_counter()
        self._root = context

    def _show(self, estimator):
        if not self._shown and time.perf_counter() - self._begin >= self.delay:
            self._bar.setup(estimator, self._root)
            self._bar.on_fit_task_begin(estimator, self._root)
            self._shown = True
        return self._shown

    def on_fit_task_begin(self, estimator, context):
        self._show(estimator)

    def on_fit_task_end(self, estimator, context):
        if self._show(estimator):
            self._bar.on_fit_task_end(estimator, context)

    def teardown(self, estimator, context):
        if self._shown:
            self._bar.teardown(estimator, self._root)
        self._shown = False


def progress_for(verbose) -> list:
    """The callbacks that `verbose` asks for."""
    if isinstance(verbose, str) and verbose == "auto":
        streams = (sys.stdout, sys.stderr)
        in_terminal = all(stream is not None and stream.isatty() for stream in streams)
        return [DelayedProgressBar()] if in_terminal else []
    return [DelayedProgressBar(delay=0.0)] if verbose else []
