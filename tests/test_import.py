"""Importing is cheap: heavy libraries load when they are first needed."""

import subprocess
import sys


def modules_after(statement):
    code = f"import sys; {statement}; print(' '.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_import_loads_no_compiler_no_command_line_and_no_file_format():
    loaded = modules_after("from rkhs import *; import rkhs.kernels, rkhs.features, rkhs.solvers")
    heavy = {"numba", "safetensors", "typer", "rkhs.cli", "rkhs.datasets", "matplotlib"}
    assert not heavy & loaded


def test_public_names_are_there():
    import rkhs

    for name in rkhs.__all__:
        assert getattr(rkhs, name).__doc__
    assert {"KernelClassifier", "KernelRegressor", "save", "load"} <= set(rkhs.__all__)
    assert set(rkhs.__all__) <= set(dir(rkhs))
