"""The partitions by endpoint: their bound, and the changes after which an entry is computed again."""

from __future__ import annotations

import pytest

from tests.broker.groups.driver import FakeTopics
from trimaran.broker.groups.streams import endpoints
from trimaran.broker.groups.streams.configuring import ConfiguredSubtopology, ConfiguredTopology
from trimaran.broker.groups.streams.endpoints import Endpoints
from trimaran.broker.groups.streams.member import StreamsMember
from trimaran.broker.groups.streams.tasks import AssignedTasks
from trimaran.wire.identity import Address
from trimaran.wire.messages.streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    TopicPartition,
)

TOPICS = FakeTopics(t=4, u=2)


def topology_of(*sources):
    found = ConfiguredSubtopology(4, frozenset(sources), {}, frozenset(), {})
    return ConfiguredTopology(1, {"0": found})


def member(id_, *partitions, host="x"):
    assigned = AssignedTasks({"0": dict.fromkeys(partitions, 1)}, {}, {})
    return StreamsMember(id_, endpoint=Address(host, 80), assigned=assigned)


def entry(host, **partitions):
    return EndpointToPartitions(
        user_endpoint=Endpoint(host=host, port=80),
        active_partitions=[TopicPartition(topic=name, partitions=p) for name, p in partitions.items()],
        standby_partitions=[],
    )  # fmt: skip


A, B = member("a", 0, 1), member("b", 2, 3, host="y")
# The sizes of both entries: a host, a topic and two partitions.
BOTH = 2 * (1 + 16 + 1 + 16 + 2 * 4)


@pytest.mark.parametrize(("more", "count"), [(-1, 1), (0, 2), (1, 2)])
def test_endpoints_beyond_the_bound_are_omitted(monkeypatch, more, count):
    monkeypatch.setattr(endpoints, "ENDPOINTS_BYTES_MAX", BOTH + more)
    found, topology = Endpoints(), topology_of("t")
    expected = [entry("x", t=[0, 1]), entry("y", t=[2, 3])][:count]
    for _ in range(2):  # first computed, then cached
        assert found.of([A, B], topology, TOPICS) == expected


@pytest.mark.parametrize(
    ("after", "sources", "expected"),
    [
        (A, ["t"], entry("x", t=[0, 1])),
        (A, ["u"], entry("x", u=[0, 1])),
        (A, ["t", "u"], entry("x", t=[0, 1], u=[0, 1])),
        (member("a", 0, 1, host="z"), ["t"], entry("z", t=[0, 1])),
        (member("a", 1, 2), ["t"], entry("x", t=[1, 2])),
    ],
)
def test_changed_endpoint_tasks_or_topology_renew_entry(after, sources, expected):
    found = Endpoints()
    assert found.of([A], topology_of("t"), TOPICS) == [entry("x", t=[0, 1])]
    assert found.of([after], topology_of(*sources), TOPICS) == [expected]


def test_entry_is_computed_once_for_its_tasks():
    found, topology = Endpoints(), topology_of("t")
    [first] = found.of([A], topology, TOPICS)
    [again] = found.of([A], topology, TOPICS)
    assert again is first
    assert found.of([member("a", 0, 1, host="z")], topology, TOPICS) == [entry("z", t=[0, 1])]
    assert found.of([member("a", 1, 2, host="z")], topology, TOPICS) == [entry("z", t=[1, 2])]
    [other] = found.of([member("a", 1, 2, host="z")], topology_of("t"), TOPICS)
    [last] = found.of([member("a", 1, 2, host="z")], topology_of("t"), TOPICS)
    assert last is not other
