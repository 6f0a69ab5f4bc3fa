"""Compares our codecs with Apache Kafka's own and prints how many pairs agree.

python -m tests.interop.golden [--version 4.4.0] [--samples 20]
"""

import argparse
import sys
from collections import Counter

from tests.interop.golden import messages, records
from tests.interop.golden.oracle import VERSIONS, running


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.golden", description=__doc__)
    parser.add_argument("--version", choices=VERSIONS, action="append")
    parser.add_argument("--samples", type=int, default=20, help="messages of each pair")
    chosen = parser.parse_args()
    failures = 0
    for version in chosen.version or VERSIONS:
        with running(version) as oracle:
            outcomes = [
                *messages.check_all(oracle, chosen.samples),
                *records.check_records(oracle, chosen.samples),
            ]
            if version < "4":
                outcomes += records.check_down_conversion(oracle, chosen.samples)
        failures += report(version, outcomes)
    return 1 if failures else 0


def report(version: str, outcomes: list[messages.Outcome]) -> int:
    """Prints one line for each family and for each failure."""
    total, agreed = Counter(o.family for o in outcomes), Counter()
    for outcome in outcomes:
        agreed[outcome.family] += outcome.failure is None
        if outcome.failure:
            print(f"  {outcome.label}: {outcome.failure}", file=sys.stderr)
    for family in total:
        print(f"Kafka {version}, {family}: {agreed[family]} of {total[family]} pairs")
    print(f"Kafka {version}: {agreed.total()} of {total.total()} pairs", flush=True)
    return total.total() - agreed.total()


if __name__ == "__main__":
    sys.exit(main())
