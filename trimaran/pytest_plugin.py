"""Fixtures for pytest, found by the entry point `trimaran`. Nothing is started before a test asks for it.

- `embedded_kafka`: an `EmbeddedKafka` for the whole run.
- `kafka_cluster`: a `KafkaCluster` for each module, as tests of it may break it.
- `kafka_bootstrap`: its address.
- `kafka_topic`: a new topic in it for each test, named after it; `kafka_topics` makes more.
- `kafka_settings`: keys of server.properties for both; override it in your conftest.py.

`kafka_brokers` and `kafka_controllers` of pytest's configuration say how many there are in `kafka_cluster`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    from trimaran import testing
else:
    testing = imported_later("trimaran.testing")

_NUMBERS = itertools.count(1)
_NAME_CHARACTERS_MAX = 200


def pytest_addoption(parser: pytest.Parser) -> None:
    for noun in ("brokers", "controllers"):
        parser.addini(
            f"kafka_{noun}", f"how many {noun} the kafka_cluster fixture has", default="3"
        )


@pytest.fixture(scope="session")
def kafka_settings() -> dict[str, str]:
    """Keys of server.properties, beside those that a test cluster needs."""
    return {}


@pytest.fixture(scope="session")
def embedded_kafka(kafka_settings: dict[str, str]) -> Iterator[testing.EmbeddedKafka]:
    """One node in this process."""
    with testing.EmbeddedKafka(kafka_settings) as running:
        yield running


@pytest.fixture(scope="module")
def kafka_cluster(
    pytestconfig: pytest.Config, kafka_settings: dict[str, str]
) -> Iterator[testing.KafkaCluster]:
    """Controllers and brokers in processes of their own."""
    brokers, controllers = (
        int(pytestconfig.getini(name)) for name in ("kafka_brokers", "kafka_controllers")
    )
    with testing.KafkaCluster(
        brokers=brokers, controllers=controllers, settings=kafka_settings
    ) as running:
        yield running


@pytest.fixture
def kafka_bootstrap(embedded_kafka: testing.EmbeddedKafka) -> str:
    """The addresses for bootstrap.servers of clients."""
    return embedded_kafka.bootstrap


@pytest.fixture
def kafka_topics(
    embedded_kafka: testing.EmbeddedKafka, request: pytest.FixtureRequest
) -> Iterator[Callable[..., str]]:
    """Makes topics that no other test has; takes what `create_topic` takes, and deletes them after the test."""
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
    """A topic of one partition that no other test has."""
    return kafka_topics()
