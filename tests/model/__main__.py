"""Enumerates the model: `python -m tests.model --epochs 2 --proposals 0 --crashes 0 --strays 0 --seconds 300`.

Prints the number of states and the tested invariants; the exit status is 1, with the shortest trail, if an invariant is
broken.
"""

from __future__ import annotations

import argparse
import sys

from tests.model.search import Broken, search
from tests.model.world import Bounds


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.model", description=__doc__)
    for name, default in (
        ("epochs", 2),
        ("proposals", 0),
        ("crashes", 0),
        ("strays", 0),
        ("letters", 3),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--discovery", action="store_true")
    parser.add_argument("--seconds", type=float, default=300.0, help="of one core")
    # about 3 KB for each state that waits to be examined
    parser.add_argument("--states", type=int, default=1_000_000)
    given = parser.parse_args()
    bounds = Bounds(
        given.epochs, given.proposals, given.crashes, given.strays, given.discovery, given.letters
    )
    print(bounds, flush=True)
    try:
        count = search(bounds, given.states, given.seconds)
    except Broken as broken:
        print(broken)
        return 1
    print(count)
    return 0


if __name__ == "__main__":
    sys.exit(main())
