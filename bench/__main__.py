"""`./dev bench [NAME ...] [--only ours|kafka] [--json FILE]`: runs benches and prints the ratio table.

`./dev bench calls`, `./dev bench codec`, `./dev bench log-path`, `./dev bench failover`, `./dev bench scale` and
`./dev bench spark` print their own tables; see those packages and modules. `BENCH_SMALL=1` in the environment: each
takes seconds (`bench/sizes.py`).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from bench import benches, calls, failover, scale
from bench.clusters import SYSTEMS, Cluster, systems_of
from bench.codec import __main__ as codec
from bench.log_path import __main__ as log_path
from bench.results import Figure, print_table
from bench.spark import __main__ as spark

OWN_TABLES = {
    "calls": calls.main,
    "codec": codec.main,
    "log-path": log_path.main,
    "scale": scale.main,
    "failover": failover.main,
    "spark": spark.main,
}


def main() -> None:
    if (own := OWN_TABLES.get(sys.argv[1] if len(sys.argv) > 1 else "")) is not None:
        own(sys.argv[2:])
        return
    names = [*benches.BENCHES, *benches.IN_TURNS]
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        choices=[[], *names],
        help="which benches; all when none is named",
    )
    parser.add_argument("--only", choices=SYSTEMS, help="measure one system")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    systems = systems_of(arguments.only)
    figures: list[Figure] = []
    for name in arguments.names or names:
        figures += _run(name, systems)
    print_table(figures)
    if arguments.json:
        arguments.json.write_text(json.dumps([f._asdict() for f in figures], indent=2) + "\n")


def _run(name: str, systems: list[str]) -> list[Figure]:
    if (in_turns := benches.IN_TURNS.get(name)) is not None:
        print(f"bench: {name} on {', '.join(systems)}", file=sys.stderr, flush=True)
        return in_turns({system: SYSTEMS[system] for system in systems})
    figures = []
    for system in systems:
        print(f"bench: {name} on {system}", file=sys.stderr, flush=True)
        figures += benches.BENCHES[name](SYSTEMS[system], system)
    return figures


__all__ = ["Cluster"]

if __name__ == "__main__":
    main()
