"""Fixtures for pytest, found by its entry point. A fixture starts its node or cluster at its first use.

- `embedded_kafka`: an `EmbeddedKafka` for the whole run.
- `kafka_cluster`: a `KafkaCluster` for each module, since tests may break it.
- `kafka_bootstrap`: the address of the embedded node.
- `kafka_topic`: a new topic in it for each test, named after it; `kafka_topics` makes more.
- `kafka`: the embedded node with faults on demand (`kafka.faults`), which end with the test; the marker
  `@pytest.mark.kafka_faults(plan)` gives it the rules of a plan: a file, its text, or the name of a ready plan.
  Values of a ready plan may be replaced: `@pytest.mark.kafka_faults("commit-answered-late", group="billing")`.
- `kafka_settings`: keys of server.properties for both; override it in your conftest.py.

`kafka_brokers` and `kafka_controllers` of pytest's configuration are the numbers of nodes in `kafka_cluster`.
The report of a test that failed has the seed, the plan and the trace of its faults. `--kafka-plan FILE` gives tests
with the fixture `kafka` that plan instead of the one of the marker.
"""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from trimaran import testing

_NUMBERS = itertools.count(1)
_NAME_CHARACTERS_MAX = 200
_PLAN = pytest.StashKey[str]()


class UnmatchedFault(UserWarning):
    """No request of a test has matched a rule of it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kafka-plan",
        metavar="FILE",
        help="give tests with the fixture kafka the faults of this plan",
    )
    for noun in ("brokers", "controllers"):
        parser.addini(
            f"kafka_{noun}", f"how many {noun} the kafka_cluster fixture has", default="3"
        )


def _testing() -> Any:
    """Returns `trimaran.testing`, which takes a quarter of a second to import. It is not a proxy at the top of this
    module: pytest reads attributes of everything in a plugin's module, which would import it in every run.
    """
    return import_module("trimaran.testing")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "kafka_faults(plan, **values): faults of the fixture kafka: a plan's file, text or name",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Adds seed, plan and trace of the faults to the report of a test that failed."""
    report: pytest.TestReport = yield  # type: ignore[assignment]
    plan = item.stash.get(_PLAN, None)
    if report.when == "call" and report.failed and plan is not None:
        trace = str(item.funcargs["kafka"].faults.trace)  # type: ignore[attr-defined]
        report.sections.append(("Kafka faults: the plan, for --kafka-plan", plan))
        report.sections.append(("Kafka faults: the trace", trace))
    return report  # type: ignore[return-value]


@pytest.fixture(scope="session")
def kafka_settings() -> dict[str, str]:
    """Returns keys of server.properties in addition to those that a test cluster needs."""
    return {}


@pytest.fixture(scope="session")
def embedded_kafka(kafka_settings: dict[str, str]) -> Iterator[testing.EmbeddedKafka]:
    """Yields one node in this process."""
    with _testing().EmbeddedKafka(kafka_settings) as running:
        yield running


@pytest.fixture
def kafka(
    embedded_kafka: testing.EmbeddedKafka, request: pytest.FixtureRequest
) -> Iterator[testing.EmbeddedKafka]:
    """Yields the embedded node, with no faults but those of the test's plan.

    At the end, rules that no request has matched are warnings, and errors of scripts are raised.
    """
    faults = embedded_kafka.faults
    faults.clear()
    _load_plan(request, faults)
    request.node.stash[_PLAN] = faults.plan
    yield embedded_kafka
    unmatched = faults.unmatched()
    try:
        faults.check_scripts()
    finally:
        faults.clear()
    for name in unmatched:
        warnings.warn(f"no request has matched the rule {name}", UnmatchedFault, stacklevel=1)


def _load_plan(request: pytest.FixtureRequest, faults: Any) -> None:
    """Adds the rules of the command line's plan, or those of the test's marker."""
    given = request.config.getoption("--kafka-plan")
    marker = request.node.get_closest_marker("kafka_faults")
    if given:
        faults.load(given)
    elif marker is not None and marker.kwargs:
        faults.add_plan(*marker.args, **marker.kwargs)
    elif marker is not None:
        faults.load(marker.args[0])


@pytest.fixture(scope="module")
def kafka_cluster(
    pytestconfig: pytest.Config, kafka_settings: dict[str, str]
) -> Iterator[testing.KafkaCluster]:
    """Yields controllers and brokers, each in its own process."""
    brokers, controllers = (
        int(pytestconfig.getini(name)) for name in ("kafka_brokers", "kafka_controllers")
    )
    with _testing().KafkaCluster(
        brokers=brokers, controllers=controllers, settings=kafka_settings
    ) as running:
        yield running


@pytest.fixture
def kafka_bootstrap(embedded_kafka: testing.EmbeddedKafka) -> str:
    """Returns the addresses for bootstrap.servers of clients."""
    return embedded_kafka.bootstrap


@pytest.fixture
def kafka_topics(
    embedded_kafka: testing.EmbeddedKafka, request: pytest.FixtureRequest
) -> Iterator[Callable[..., str]]:
    """Yields a function with the arguments of `create_topic` that creates topics for this test; they are deleted after
    it.
    """
    made = []

    def make(name: str = "", **options: Any) -> str:
        base = re.sub(r"[^\w.-]+", "-", f"{request.node.name}-{name}")[:_NAME_CHARACTERS_MAX]
        made.append(embedded_kafka.create_topic(f"{base.strip('-')}-{next(_NUMBERS)}", **options))
        return made[-1]

    yield make
    for topic in made:
        embedded_kafka.delete_topic(topic)


@pytest.fixture
def kafka_topic(kafka_topics: Callable[..., str]) -> str:
    """Returns a topic with one partition that no other test uses."""
    return kafka_topics()
