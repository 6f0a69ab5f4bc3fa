"""The topic partitions whose state the members of a group can be asked for, by their endpoints (interactive queries).

Source: Kafka's `EndpointToPartitionsManager`, `StreamsGroup.buildEndpointToPartitions`. Intentional differences: the
list has a bound, and members of a topology that cannot run yet, or lost a topic, have no partitions; Kafka answers
UNKNOWN_SERVER_ERROR to them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from trimaran.broker.groups.streams.configuring import ConfiguredTopology
from trimaran.broker.groups.streams.member import StreamsMember
from trimaran.broker.groups.streams.tasks import AssignedTasks, TaskSet, united
from trimaran.broker.groups.topics import Topics
from trimaran.wire.identity import Address
from trimaran.wire.messages.streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    TopicPartition,
)

# The maximum size of the list in one response: enough for 500 members with 10 topics each.
ENDPOINTS_BYTES_MAX = 1 << 20
# The size of a topic without its name, and of a partition.
_TOPIC_BYTES, _PARTITION_BYTES = 16, 4


class _KnownEntry(NamedTuple):
    """An entry, and the values from which it was computed. A change of its topics creates a new `topology` object."""

    endpoint: Address
    assigned: AssignedTasks
    topology: ConfiguredTopology
    entry: EndpointToPartitions

    def is_of(self, member: StreamsMember, topology: ConfiguredTopology) -> bool:
        return (
            self.topology is topology
            and self.endpoint == member.endpoint
            and self.assigned == member.assigned
        )


class Endpoints:
    """The partitions of the members of one group, each computed once for its tasks."""

    def __init__(self) -> None:
        self._known: dict[str, _KnownEntry] = {}

    def of(
        self, members: Iterable[StreamsMember], topology: ConfiguredTopology, topics: Topics
    ) -> list[EndpointToPartitions]:
        """Returns the entries of all members with an endpoint, as many as the bound admits, in order."""
        found: list[EndpointToPartitions] = []
        known, self._known = self._known, {}
        left = ENDPOINTS_BYTES_MAX
        for member in members:
            if member.endpoint is None:
                continue
            before = known.get(member.id)
            if before is not None and before.is_of(member, topology):
                entry = before.entry
            else:
                entry = entry_of(member, member.endpoint, topology, topics)
            left -= _size(entry)
            if left < 0:
                break
            self._known[member.id] = _KnownEntry(member.endpoint, member.assigned, topology, entry)
            found.append(entry)
        return found


def entry_of(
    member: StreamsMember, endpoint: Address, topology: ConfiguredTopology, topics: Topics
) -> EndpointToPartitions:
    """Returns the entry of one member."""
    assigned = member.assigned
    active = {subtopology: frozenset(mine) for subtopology, mine in assigned.active.items()}
    return EndpointToPartitions(
        user_endpoint=Endpoint(host=endpoint.host, port=endpoint.port),
        active_partitions=_partitions(active, topology, topics),
        standby_partitions=_partitions(united(assigned.standby, assigned.warmup), topology, topics),
    )


def _partitions(
    tasks: TaskSet, topology: ConfiguredTopology, topics: Topics
) -> list[TopicPartition]:
    subtopologies = topology.subtopologies or {}
    found = []
    for subtopology_id in sorted(tasks.keys() & subtopologies.keys()):
        for name in subtopologies[subtopology_id].all_sources:
            topic = topics.find(name)
            count = 0 if topic is None else topic.partition_count
            if partitions := sorted(p for p in tasks[subtopology_id] if p < count):
                found.append(TopicPartition(topic=name, partitions=partitions))
    return found


def _size(entry: EndpointToPartitions) -> int:
    topics = (*entry.active_partitions, *entry.standby_partitions)
    size = len(entry.user_endpoint.host) + _TOPIC_BYTES
    return size + sum(
        len(topic.topic) + _TOPIC_BYTES + _PARTITION_BYTES * len(topic.partitions)
        for topic in topics
    )
