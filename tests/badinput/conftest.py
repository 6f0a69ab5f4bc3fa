"""One small cluster of real processes for the whole folder, and the check at the end of every case."""

import pytest

from tests.badinput.nodes import (
    COMPACTED,
    PEERS,
    TOPIC,
    foreign_cluster,
    running_cluster,
    unharmed,
)


@pytest.fixture(scope="package")
def cluster(tmp_path_factory):
    data = tmp_path_factory.mktemp("badinput")
    with foreign_cluster(PEERS) if PEERS else running_cluster(data) as cluster:
        cluster.create(TOPIC, 2)
        cluster.create(COMPACTED, 1, cleanup_policy="compact")
        yield cluster


@pytest.fixture
def broker(cluster):
    with unharmed(cluster.broker), unharmed(cluster.controller):
        yield cluster.broker


@pytest.fixture
def controller(cluster):
    with unharmed(cluster.controller), unharmed(cluster.broker):
        yield cluster.controller


@pytest.fixture(params=["broker", "controller"])
def node(request):
    return request.getfixturevalue(request.param)
