"""One 3 + 3 cluster and one adapter of each client for all tests of the matrix."""

import itertools

import pytest

from tests.clients.aiokafka_client import Aiokafka
from tests.clients.confluent import Confluent
from tests.clients.kafka_python import KafkaPython
from tests.cluster.processes import LocalCluster

ADAPTERS = {adapter.name: adapter for adapter in (Confluent, KafkaPython, Aiokafka)}
OPTIONS = (
    # Kafka waits three seconds for further members of a new group; here they join when the test lets them.
    *("--override", "group.initial.rebalance.delay.ms=0"),
    # Tests write old records, which retention could delete on a busy machine while they are read.
    *("--override", "log.retention.ms=-1"),
)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.nodeid.startswith("tests/clients/"):
            item.add_marker(pytest.mark.cluster)
            item.add_marker(pytest.mark.slow)
            for adapter in _adapters_of(item):
                what = item.module.WHAT
                item.add_marker(pytest.mark.client(adapter.client, what, version=adapter.version))


def _adapters_of(item):
    """Returns the clients of a test, each once; their rows are in docs/compatibility.md."""
    params = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return [adapter for name, adapter in ADAPTERS.items() if name in params]


@pytest.fixture(scope="package")
def cluster(tmp_path_factory):
    with LocalCluster(tmp_path_factory.mktemp("clients"), *OPTIONS) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def clients(cluster):
    """Yields the adapters. They do not live for the session, since their threads open sockets and allocate memory while
    other tests count descriptors and bytes.
    """
    opened = {name: adapter(cluster.bootstrap) for name, adapter in ADAPTERS.items()}
    yield opened
    for client in opened.values():
        client.close()


@pytest.fixture(params=ADAPTERS)
def client(request, clients):
    return clients[request.param]


@pytest.fixture(params=ADAPTERS)
def judge(request, clients):
    """Returns the client that checks the results of `client`."""
    return clients[request.param]


_numbers = itertools.count()


@pytest.fixture
def topic(clients, cluster):
    """Returns a new topic with two partitions of three replicas, which every broker knows."""
    name = f"topic-{next(_numbers)}"
    clients["confluent"].create_topic(name, 2, {})
    cluster.wait_for_topic(name)
    return name
