"""Hypothesis profiles and the switch of the interop tests.

`deterministic`, for every commit: the same examples each time, fifty, since with five a rule could be taken out and its
test still pass. `exhaustive`, by `./dev test --exhaustive`: ten times as many, other ones each time.
"""

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "deterministic",
    max_examples=50,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "exhaustive",
    max_examples=500,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("deterministic")  # --hypothesis-profile loads another one after this


def pytest_addoption(parser):
    parser.addoption(
        "--interop",
        action="store_true",
        help="run the tests against Apache Kafka (needs java and mvn)",
    )


def pytest_collection_modifyitems(config, items):
    reason = _why_no_interop(config)
    if reason is None:
        return
    for item in items:
        if item.get_closest_marker("interop"):
            item.add_marker(pytest.mark.skip(reason=reason))


def _why_no_interop(config):
    if not config.getoption("--interop"):
        return "against Apache Kafka: run ./dev interop"
    from tests.interop.apache_kafka import why_not

    return why_not()
