"""Random binning next to its peers: what it reaches, how fast, and in how much memory.

Data from the folder that RKHS_DATA names. Each measurement runs in a process of its own, after
compiled code was warmed; "others" is the share of the CPU that other processes took meanwhile.

    RKHS_DATA=folder python benchmarks/binning.py                    # everything
    RKHS_DATA=folder python benchmarks/binning.py covtype bandwidth  # some sections
    RKHS_DATA=folder python benchmarks/binning.py --quick            # does it run at all?
"""

import argparse
import json
import sys
import warnings
from importlib import import_module

from _binning.common import QUICK_ROWS
from _binning.covtype import TREES, covtype, memory
from _binning.figure5 import METHODS, SETS, SIZES, figure5
from _binning.products import bandwidth
from _binning.sparse import l1
from _machine import describe

SECTIONS = {f.__name__: f for f in (figure5, covtype, bandwidth, l1, memory)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="2,000 rows of each table, small R")
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS, help="of figure5")
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS, help="of figure5")
    parser.add_argument("--largest", type=int, default=max(SIZES), help="R of figure5")
    parser.add_argument("--longest", type=float, default=120.0, help="seconds of a fit of figure5")
    parser.add_argument(
        "--classes", nargs="+", type=int, default=[2, 7], choices=[2, 7], help="of covtype"
    )
    parser.add_argument("--trees", type=int, default=TREES, help="of LightGBM on covtype")
    options = parser.parse_args()
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    if options.quick:
        options.largest = min(options.largest, 64)
    print(describe())
    if options.quick:
        print(f"--quick: {QUICK_ROWS:,} rows, small sizes, nothing tuned, one process: no results")
        warnings.simplefilter("ignore")
    for name in options.sections or SECTIONS:
        print(f"\n== {name}: {SECTIONS[name].__doc__}\n", flush=True)
        SECTIONS[name](options)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        module, name = sys.argv[2].split(":")
        for result in getattr(import_module(module), name)(**json.loads(sys.argv[3])):
            print(json.dumps(result), flush=True)
    else:
        main()
