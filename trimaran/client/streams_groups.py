"""Streams groups (KIP-1071): members with their tasks, the topology, and the offsets of its source topics.

A task is a subtopology and a partition; it reads that partition of each source topic of the subtopology.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from trimaran.client.consumer_groups import found_group, operations_of, refuse_consumed
from trimaran.client.group_offsets import committed_offsets, lag_in_records
from trimaran.client.offsets import EARLIEST_TIMESTAMP, end_offsets
from trimaran.wire.identity import NO_OFFSET, Address, Offset, TopicPartition
from trimaran.wire.messages.streams_group_describe import StreamsGroupDescribeRequest

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient

# The state of a description of the topology (KIP-1331).
NOT_REQUESTED, NOT_STORED, ERROR, AVAILABLE = range(4)
STATUSES = ("not_requested", "not_stored", "error", "available")
# Kafka Streams names its internal topics APPLICATION-NAME with one of these suffixes.
INTERNAL_ENDS = (
    "-changelog",
    "-repartition",
    "-subscription-registration-topic",
    "-subscription-response-topic",
)


def streams_described(
    client: BlockingClient, group: str, *, with_operations: bool = False
) -> dict[str, Any] | None:
    """Returns a streams group; None if there is no such group. `assignment` of a member has its active tasks:
    partitions by subtopology.
    """
    found = found_group(
        client, group, StreamsGroupDescribeRequest, include_authorized_operations=with_operations
    )
    if found is None:
        return None
    subtopologies = found.topology.subtopologies if found.topology is not None else None
    return {
        **operations_of(found, asked=with_operations),
        "state": found.group_state,
        "epoch": found.group_epoch,
        "assignment_epoch": found.assignment_epoch,
        "assignor": found.assignor_name,
        "topology_epoch": None if found.topology is None else found.topology.epoch,
        "subtopologies": [_subtopology(one) for one in subtopologies or ()],
        "members": [_member(member) for member in found.members],
    }


def _subtopology(told: Any) -> dict[str, Any]:
    return {
        "subtopology": told.subtopology_id,
        "source_topics": list(told.source_topics),
        "repartition_source_topics": [topic.name for topic in told.repartition_source_topics],
        "repartition_sink_topics": list(told.repartition_sink_topics),
        "changelog_topics": [topic.name for topic in told.state_changelog_topics],
    }


def _member(member: Any) -> dict[str, Any]:
    endpoint = member.user_endpoint
    return {
        "member": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": member.client_host,
        "epoch": member.member_epoch,
        "rack": member.rack_id,
        "process": member.process_id,
        "endpoint": None if endpoint is None else str(Address(endpoint.host, endpoint.port)),
        "topology_epoch": member.topology_epoch,
        "classic": member.is_classic,
        "tags": {tag.key: tag.value for tag in member.client_tags},
        "assignment": tasks_of(member.assignment.active_tasks),
        "standby": tasks_of(member.assignment.standby_tasks),
        "warmup": tasks_of(member.assignment.warmup_tasks),
        "target": tasks_of(member.target_assignment.active_tasks),
        "target_standby": tasks_of(member.target_assignment.standby_tasks),
        "target_warmup": tasks_of(member.target_assignment.warmup_tasks),
        "task_offsets": _positions(member.task_offsets),
        "task_end_offsets": _positions(member.task_end_offsets),
    }


def tasks_of(tasks: Iterable[Any]) -> dict[str, list[int]]:
    """Returns tasks as partitions by subtopology."""
    return {task.subtopology_id: list(task.partitions) for task in tasks}


def _positions(offsets: Iterable[Any]) -> dict[str, int]:
    return {f"{one.subtopology_id}_{one.partition}": one.offset for one in offsets}


def task_owners(described: Mapping[str, Any]) -> dict[TopicPartition, Mapping[str, Any]]:
    """Returns the member whose active task reads a partition, by topic and partition."""
    sources = {
        told["subtopology"]: [*told["source_topics"], *told["repartition_source_topics"]]
        for told in described.get("subtopologies", ())
    }
    return {
        TopicPartition(topic, partition): member
        for member in described.get("members", ())
        for subtopology, partitions in member["assignment"].items()
        for topic in sources.get(subtopology, ())
        for partition in partitions
    }


def source_rows(client: BlockingClient, described: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns a row for each partition of a source topic that was committed or is read by an active task.

    Without a committed offset the lag counts from the start of the partition, as in Kafka's tool.
    """
    committed = committed_offsets(client, described["group"])
    active = task_owners(described)
    if described.get("subtopologies"):
        sources = {topic for topic, _ in active} | _sources(described)
        committed = {place: offset for place, offset in committed.items() if place.topic in sources}
    new = active.keys() - committed.keys()
    rows = lag_in_records(client, committed | dict.fromkeys(new, NO_OFFSET))
    starts = end_offsets(client, new, EARLIEST_TIMESTAMP)
    for row in rows:
        place = TopicPartition(row["topic"], row["partition"])
        if place in new:
            row["committed"] = None
            if row["lag"] is not None:
                row["lag"] -= starts.get(place, Offset(0))
    return rows


def input_offsets(
    client: BlockingClient, described: Mapping[str, Any]
) -> dict[TopicPartition, Offset]:
    """Returns the committed offsets of the topics that the application reads, without its own topics."""
    committed = committed_offsets(client, described["group"])
    if not described.get("subtopologies"):
        return committed
    inputs = _topics(described, "source_topics")
    return {place: offset for place, offset in committed.items() if place.topic in inputs}


def internal_topics(described: Mapping[str, Any]) -> list[str]:
    """Returns the repartition and changelog topics that Kafka Streams created for the group, by their names."""
    names = _topics(described, "repartition_source_topics", "changelog_topics")
    names -= _topics(described, "source_topics")
    return sorted(
        name
        for name in names
        if name.startswith(f"{described['group']}-") and name.endswith(INTERNAL_ENDS)
    )


def ensure_not_consumed(described: Mapping[str, Any], topics: Collection[str]) -> None:
    """Raises KafkaError, as OffsetDelete would, if the group has members and one of the topics is a source topic."""
    if described["members"]:
        refuse_consumed(topics, _sources(described))


def _sources(described: Mapping[str, Any]) -> set[str]:
    return _topics(described, "source_topics", "repartition_source_topics")


def _topics(described: Mapping[str, Any], *kinds: str) -> set[str]:
    return {
        topic
        for subtopology in described["subtopologies"]
        for kind in kinds
        for topic in subtopology[kind]
    }


def topology_of(client: BlockingClient, group: str) -> dict[str, Any] | None:
    """Returns the status of the description of the topology (KIP-1331), and the description: nodes by subtopology, and
    global stores. None if there is no such group, or the broker knows no descriptions.
    """
    found = found_group(
        client, group, StreamsGroupDescribeRequest, include_topology_description=True
    )
    if found is None:
        return None
    status = found.topology_description_status
    told = found.topology_description
    return {
        "group": group,
        "status": STATUSES[status] if 0 <= status < len(STATUSES) else "unknown",
        "subtopologies": [
            {
                "subtopology": subtopology.subtopology_id,
                "nodes": _with_predecessors([_node(node) for node in subtopology.nodes]),
            }
            for subtopology in (told.subtopologies if told is not None else ())
        ],
        "global_stores": [
            {"nodes": _with_predecessors([_node(store.source), _node(store.processor)])}
            for store in (told.global_stores if told is not None else ())
        ],
    }


def _node(told: Any) -> dict[str, Any]:
    kinds = {1: "source", 2: "processor", 3: "sink"}
    return {
        "name": told.name,
        "type": kinds.get(told.node_type, "unknown"),
        "topics": sorted(told.source_topics),
        "topic": told.sink_topic,
        "stores": sorted(told.stores),
        "successors": sorted(told.successors),
    }


def _with_predecessors(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for node in nodes:
        node["predecessors"] = sorted(
            other["name"] for other in nodes if node["name"] in other["successors"]
        )
    return nodes
