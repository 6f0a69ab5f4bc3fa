"""Fixtures for pytest, found by its entry point. A fixture starts its node or cluster at its first use.

- `embedded_kafka`: an `EmbeddedKafka` for the whole run.
- `kafka_cluster`: a `KafkaCluster` for each module, since tests may break it.
- `kafka_bootstrap`: the address of the embedded node.
- `kafka_topic`: a new topic in it for each test, named after it; `kafka_topics` makes more.
- `kafka_settings`: keys of server.properties for both; override it in your conftest.py.

`kafka_brokers` and `kafka_controllers` of pytest's configuration are the numbers of nodes in `kafka_cluster`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from trimaran import testing

_NUMBERS = itertools.count(1)
_NAME_CHARACTERS_MAX = 200


def pytest_addoption(parser: pytest.Parser) -> None:
    for noun in ("brokers", "controllers"):
        parser.addini(
            f"kafka_{noun}", f"how many {noun} the kafka_cluster fixture has", default="3"
        )


def _testing() -> Any:
    """Returns `trimaran.testing`, which takes a quarter of a second to import. It is not a proxy at the top of this
    module: pytest reads attributes of everything in a plugin's module, which would import it in every run.
    """
    return import_module("trimaran.testing")


@pytest.fixture(scope="session")
def kafka_settings() -> dict[str, str]:
    """Returns keys of server.properties in addition to those that a test cluster needs."""
    return {}


@pytest.fixture(scope="session")
def embedded_kafka(kafka_settings: dict[str, str]) -> Iterator[testing.EmbeddedKafka]:
    """Yields one node in this process."""
    with _testing().EmbeddedKafka(kafka_settings) as running:
        yield running


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
