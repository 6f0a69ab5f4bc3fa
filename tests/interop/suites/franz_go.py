"""The tests of franz-go's client kgo, from its Go module."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from tests.interop.suites.go_tests import Package, whole

NAME = "franz-go"
VERSION = "1.22.2"
NEEDS = ("go",)
PACKAGE = Package(NAME, "github.com/twmb/franz-go", VERSION, "pkg/kgo")
RUN_SECONDS_MAX = 1500
# The number of records of one test; its authors use 500,000 on dedicated machines.
RECORDS = 50_000


def run(
    bootstrap: str, work: Path, only: Iterable[str] = (), *, records: int = RECORDS
) -> dict[str, str]:
    """Returns `passed`, `failed` or `skipped` by test name; `only` are names. The output stays in `work`."""
    environ = {
        **os.environ,
        "KGO_LOG_LEVEL": "none",
        "KGO_SEEDS": bootstrap,
        "KGO_TEST_RECORDS": str(records),
    }
    found = PACKAGE.run(work / "kgo.log", environ, RUN_SECONDS_MAX, only=only)
    return whole(found)
