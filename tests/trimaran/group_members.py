"""A member of each kind of group, by requests of the plain protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.broker.groups.streams.driver import subtopology, topic, topology
from tests.cluster.processes import until
from trimaran.client import acls, changes
from trimaran.client.idempotent_producer import IdempotentProducer
from trimaran.quorum.metadata.acls import Acl
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.client.destinations import CoordinatorNode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from trimaran.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from trimaran.wire.messages.streams_group_heartbeat import Endpoint, StreamsGroupHeartbeatRequest
from trimaran.wire.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from trimaran.wire.security.acls import Permission

TOPIC = "orders"


def _consumer(group: str, epoch: int, answer: Any) -> ConsumerGroupHeartbeatRequest:
    joining = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [TOPIC]}
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="consumer-1",
        member_epoch=epoch,
        topic_partitions=[],
        **(joining if epoch == 0 else {}),
    )


def _share(group: str, epoch: int, answer: Any) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(
        group_id=group,
        member_id="sharer-1",
        member_epoch=epoch,
        subscribed_topic_names=[TOPIC] if epoch == 0 else None,
    )


def _streams(group: str, epoch: int, answer: Any) -> StreamsGroupHeartbeatRequest:
    repartition = f"{group}-by-key-repartition"
    fields: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    if epoch == 0:
        fields |= {
            "rebalance_timeout_ms": 60_000,
            "process_id": "process-1",
            "user_endpoint": Endpoint(host="app", port=8080),
            "topology": topology(
                subtopology("0", [TOPIC], sinks=[repartition]),
                subtopology(
                    "1",
                    [],
                    changelogs=[f"{group}-counts-changelog"],
                    repartition=[topic(repartition, 1)],
                ),
            ),
        }
    elif answer is not None and answer.active_tasks:
        fields["active_tasks"] = answer.active_tasks
    return StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id="streamer-1",
        member_epoch=epoch,
        endpoint_information_epoch=0,
        **fields,
    )


def join(client: BlockingClient, kind: str, group: str) -> None:
    """Joins a group of a kind, and returns once it is stable and the member has its assignment."""
    joined(client, kind, group)


def joined(client: BlockingClient, kind: str, group: str) -> Callable[[], bool]:
    """Does what `join` does, and returns a function that sends a heartbeat."""
    make = {"consumer": _consumer, "share": _share, "streams": _streams}[kind]
    state: dict[str, Any] = {"epoch": 0, "answer": None, "is_assigned": False}

    def beat() -> bool:
        answer = client.call(CoordinatorNode(group), make(group, state["epoch"], state["answer"]))
        assert not answer.error_code, answer
        state["epoch"] = answer.member_epoch
        found = answer.active_tasks if kind == "streams" else answer.assignment
        if found:
            state["answer"] = answer
            state["is_assigned"] |= bool(kind == "streams" or found.topic_partitions)
        return bool(state["is_assigned"])

    until(beat, f"a member of {group} with an assignment")
    beat()
    return beat


def leave(client: BlockingClient, kind: str, group: str) -> None:
    make = {"consumer": _consumer, "share": _share, "streams": _streams}[kind]
    assert not client.call(CoordinatorNode(group), make(group, -1, None)).error_code


def commit(client: BlockingClient, group: str, offset: int) -> None:
    """Commits an offset without a member: a new group is a classic one."""
    changes.commit_offsets(client, group, {TopicPartition(TOPIC, 0): offset})


def produce(client: BlockingClient) -> None:
    """Produces three records."""
    producer = IdempotentProducer(client, TOPIC)
    producer.send(0, [(None, b"value")] * 3)


def allow(client: BlockingClient, operation: str, resource: str) -> None:
    """Allows the user an operation, and with it those that it includes: all others need an ACL from now on."""
    _change_acls(client, operation, resource, is_allowed=True)


def revoke(client: BlockingClient, operation: str, resource: str) -> None:
    """Removes the ACL of `allow`."""
    _change_acls(client, operation, resource, is_allowed=False)


def _change_acls(
    client: BlockingClient, operation: str, resource: str, *, is_allowed: bool
) -> None:
    """Returns once the broker knows the change."""
    pattern = acls.parse_pattern(resource)
    (wanted,) = acls.parse_operations(operation)
    acl = Acl(*pattern, "User:ANONYMOUS", "*", wanted, Permission.ALLOW)
    change = acls.create_acls if is_allowed else acls.delete_acls
    change(client, [acl])
    until(lambda: (acl in acls.acls_of(client, None, None)) is is_allowed, f"a change of {acl}")


def describe_topology(client: BlockingClient, group: str) -> None:
    """Sends a description of the topology, as Kafka Streams does when the coordinator asks for it."""
    nodes = [
        TopologyDescriptionNode(
            name="source", node_type=1, source_topics=[TOPIC], stores=[], successors=["sink"]
        ),
        TopologyDescriptionNode(
            name="sink",
            node_type=3,
            source_topics=[],
            sink_topic=f"{group}-by-key-repartition",
            stores=[],
            successors=[],
        ),
    ]
    told = TopologyDescription(
        subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0", nodes=nodes)],
        global_stores=[],
    )
    request = StreamsGroupTopologyDescriptionUpdateRequest(
        group_id=group, member_id="streamer-1", topology_epoch=1, topology_description=told
    )
    assert not client.call(CoordinatorNode(group), request).error_code
