"""`python -m tests.interop.suites SUITE ours|kafka [TEST …]`: runs a suite, stores its results, and prints them."""

import argparse
import os
import tempfile
from collections import Counter
from pathlib import Path

from tests.interop import apache_kafka
from tests.interop.suites import registry, results, sources, variants
from tests.interop.suites.clusters import KINDS
from tests.interop.suites.running import run, why_not

SUITES = {suite.NAME: suite for suite in (*registry.SUITES, *variants.VARIANTS)}


def main(words=None):
    parser = argparse.ArgumentParser(prog="python -m tests.interop.suites", description=__doc__)
    parser.add_argument("suite", choices=SUITES, metavar="SUITE", help=", ".join(SUITES))
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("only", nargs="*", metavar="TEST")
    parser.add_argument("--sources", metavar="FOLDER", help="checkouts of suites")
    asked = parser.parse_args(words)
    if asked.sources:
        os.environ[sources.VARIABLE] = asked.sources
    if why := why_not(SUITES[asked.suite], asked.kind):
        parser.exit(1, f"{asked.suite} did not run: {why}\n")
    work = Path(tempfile.mkdtemp(prefix=f"{asked.suite}-{asked.kind}-"))
    found = run(SUITES[asked.suite], asked.kind, work, asked.only)
    results.keep(asked.suite, asked.kind, found, whole=not asked.only)
    if asked.kind == "kafka" and not asked.only:
        results.keep_kafka(asked.suite, apache_kafka.VERSION)
    for name, state in sorted(found.items()):
        if state != results.PASSED:
            print(state, name)
    print(dict(Counter(found.values())), "in", work)


if __name__ == "__main__":
    main()
