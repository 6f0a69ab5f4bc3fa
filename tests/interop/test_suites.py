"""Third-party suites on our cluster: tests that pass on Apache Kafka in the same set-up pass here (`results/` has
its runs). They take an hour together; `TRIMARAN_SUITE_TESTS="0081 0103"` runs some tests of a suite. Variants run only
by name: `./dev interop -k librdkafka-sasl`; `python -m tests.interop.suites librdkafka-sasl kafka` runs one on Kafka.
"""

import os

import pytest

from tests.interop.suites import results
from tests.interop.suites.gaps import GAPS
from tests.interop.suites.registry import SUITES
from tests.interop.suites.running import run, why_not
from tests.interop.suites.variants import VARIANTS


@pytest.mark.parametrize("suite", SUITES, ids=lambda one: one.NAME)
def test_tests_passing_on_kafka_pass_on_us(suite, tmp_path):
    assert missed(suite, tmp_path) == set(), f"logs in {tmp_path}"


@pytest.mark.parametrize("suite", VARIANTS, ids=lambda one: one.NAME)
def test_variants_passing_on_kafka_pass_on_us(suite, tmp_path, request):
    if suite.NAME not in request.config.option.keyword:
        pytest.skip(f"takes long; -k {suite.NAME} runs it")
    assert missed(suite, tmp_path) == set(), f"logs in {tmp_path}"


def missed(suite, work):
    """Returns the tests of a suite that pass on Kafka, fail on our cluster, and are not listed as gaps."""
    if why := why_not(suite, "ours"):
        pytest.skip(why)
    if not any("kafka" in states for states in results.load(suite.NAME).values()):
        pytest.skip(
            f"run it on Apache Kafka first: python -m tests.interop.suites {suite.NAME} kafka"
        )
    found = run(suite, "ours", work, os.environ.get("TRIMARAN_SUITE_TESTS", "").split())
    assert results.PASSED in found.values()
    return set(results.below_kafka(suite.NAME, found)) - set(GAPS.get(suite.NAME, {}))
