"""`python -m tests.interop.suites SUITE ours|kafka [TEST …]`: runs a suite, stores its results, and prints them."""

import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.interop import apache_kafka
from tests.interop.suites import registry, results, variants
from tests.interop.suites.running import run

SUITES = {suite.NAME: suite for suite in (*registry.SUITES, *variants.VARIANTS)}


def main(suite, kind, *only):
    work = Path(tempfile.mkdtemp(prefix=f"{suite}-{kind}-"))
    found = run(SUITES[suite], kind, work, only)
    results.keep(suite, kind, found)
    if kind == "kafka" and not only:
        results.keep_kafka(suite, apache_kafka.VERSION)
    for name, state in sorted(found.items()):
        if state != results.PASSED:
            print(state, name)
    print(dict(Counter(found.values())), "in", work)


main(*sys.argv[1:])
