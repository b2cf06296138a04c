"""The sections of `benchmarks/binning.py`."""
