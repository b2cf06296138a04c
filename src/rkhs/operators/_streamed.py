"""The features of a map, regenerated tile by tile."""

from rkhs.operators._base import Operator


class StreamedOperator(Operator):
    """The matrix of a feature map's features on a row source.

    Parameters
    ----------
    feature_map : FeatureMap
        Fitted; its `write(X, out)` computes the features of dense rows.
    source : RowSource
    """

    def __init__(self, feature_map, source, dtype, keep_bytes=0, n_jobs=None):
        shape = (len(source), feature_map.n_outputs)
        super().__init__(shape, dtype, keep_bytes, n_jobs)
        self._map = feature_map
        self._source = source
        self.entry_work = source.shape[1]

    def compute(self, rows, buffer=None):
        block = self._source[rows]
        out = (buffer or self.fresh)(0, (len(block), self.shape[1]))
        self._map.write(block, out)
        yield out
