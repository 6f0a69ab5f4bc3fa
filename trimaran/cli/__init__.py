"""The command line. `main` is the entry point; commands are imported when they are called."""

import gc
import sys

from trimaran.cli.commands import APP, COMPLETE_NAMES, function_of
from trimaran.cli.deferred import imports_deferred

# New containers between two runs of the garbage collector, which take 2 to 5 ms. With Python's 700 a node of 20,000
# partitions would spend an eighth of its start on runs that find nothing, since imported and loaded objects stay.
YOUNG_OBJECTS_MAX = 50_000


def main() -> None:
    """Entry point of the `trimaran` script."""
    if sys.argv[1:2] == ["complete-names"]:
        function_of(COMPLETE_NAMES)(sys.argv[2:])
    gc.set_threshold(YOUNG_OBJECTS_MAX)
    with imports_deferred():
        run = function_of(APP)
    try:
        run()
    finally:
        gc.freeze()  # the memory is freed with the process: a collection at exit would take 20 ms
