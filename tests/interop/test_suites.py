"""The suites of others on us: what passes on Apache Kafka 4.3 in the same set-up passes here (`results/` has its runs).

They take an hour together; `TRIMARAN_SUITE_TESTS="0081 0103"` runs some tests of a suite.
"""

import os

import pytest

from tests.interop.suites import franz_go, kafka_python, librdkafka, results
from tests.interop.suites.gaps import GAPS
from tests.interop.suites.running import run, why_not


@pytest.mark.parametrize("suite", [librdkafka, franz_go, kafka_python], ids=lambda one: one.NAME)
def test_what_passes_on_kafka_passes_on_us(suite, tmp_path):
    if why := why_not(suite):
        pytest.skip(why)
    found = run(suite, "ours", tmp_path, os.environ.get("TRIMARAN_SUITE_TESTS", "").split())
    assert results.PASSED in found.values()
    below = results.below_kafka(suite.NAME, found)
    assert set(below) - set(GAPS.get(suite.NAME, {})) == set(), f"logs in {tmp_path}"
