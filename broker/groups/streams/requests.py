"""The checks of a StreamsGroupHeartbeat that do not depend on the group, and the tasks that it reports.

Source: `throwIfStreamsGroupHeartbeatRequestIsInvalid`, `-IsUsingUnsupportedFeatures` of Kafka's
`GroupCoordinatorService`, in their order. The bounds for sizes are ours.
"""

from __future__ import annotations

from collections.abc import Iterable

from trimaran.broker.groups.heartbeating.member import JOINING_EPOCH, LEAVING_STATIC_EPOCH
from trimaran.broker.groups.streams.assignor import TaskOffsets
from trimaran.broker.groups.streams.configuring import TASKS_MAX
from trimaran.broker.groups.streams.operation import ReportedOffsets
from trimaran.broker.groups.streams.reconciliation import Reported
from trimaran.broker.groups.streams.settings import (
    MEMBER_ID_CHARACTERS_MAX,
    MEMBER_TEXT_BYTES_MAX,
)
from trimaran.broker.groups.streams.tasks import MemberTasks, task_set
from trimaran.broker.groups.streams.topology import check_topology, invalid
from trimaran.node.text.memory import text_bytes
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset
from trimaran.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    TaskOffset,
    Topology,
)


def check_request(request: StreamsGroupHeartbeatRequest) -> None:
    """Raises KafkaError INVALID_REQUEST or STREAMS_INVALID_TOPOLOGY for an invalid request."""
    topology = request.topology
    if topology is not None and any(one.source_topic_regex for one in topology.subtopologies):
        raise refused("Regular expressions for source topics are not supported yet.")
    _check_texts(request)
    if request.member_epoch == JOINING_EPOCH:
        _check_joining(request)
    elif request.member_epoch == LEAVING_STATIC_EPOCH:
        if request.instance_id is None:
            raise refused("InstanceId can't be null.")
    elif request.member_epoch < LEAVING_STATIC_EPOCH:
        raise refused(
            f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2."
        )
    roles = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if None in roles and any(role is not None for role in roles):
        raise refused("If one task-type is non-null, all must be non-null.")
    if request.member_epoch != JOINING_EPOCH and topology is not None:
        raise refused("Topology can only be provided when (re-)joining.")


def _check_texts(request: StreamsGroupHeartbeatRequest) -> None:
    for text, name in (
        (request.member_id, "MemberId"),
        (request.group_id, "GroupId"),
        (request.instance_id, "InstanceId"),
        (request.rack_id, "RackId"),
    ):
        if text is not None and not text.strip():
            raise refused(f"{name} can't be empty.")
    if len(request.member_id) > MEMBER_ID_CHARACTERS_MAX:
        raise refused("MemberId is too long.")
    texts = [request.instance_id, request.rack_id, request.process_id]
    texts += [text for tag in request.client_tags or () for text in (tag.key, tag.value)]
    if request.user_endpoint is not None:
        texts.append(request.user_endpoint.host)
    if sum(text_bytes(text) for text in texts if text is not None) > MEMBER_TEXT_BYTES_MAX:
        raise refused("The member's ids, tags and endpoint are too large.")


def _check_joining(request: StreamsGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise refused("RebalanceTimeoutMs must be provided in first request.")
    for tasks, name in (
        (request.active_tasks, "ActiveTasks"),
        (request.standby_tasks, "StandbyTasks"),
        (request.warmup_tasks, "WarmupTasks"),
    ):
        if tasks:
            raise refused(f"{name} must be empty when (re-)joining.")
    if request.topology is None:
        raise refused("Topology must be non-null when (re-)joining.")
    _check_changelogs(request.topology)
    check_topology(request.topology)


def _check_changelogs(topology: Topology) -> None:
    for subtopology in topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions:
                raise invalid(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}."
                )


def reported_tasks(request: StreamsGroupHeartbeatRequest) -> Reported:
    """Returns the tasks that the member reports as owned; None if the request omits them."""
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    return MemberTasks(task_set(active), task_set(standby), task_set(warmup))


def reported_offsets(
    request: StreamsGroupHeartbeatRequest, before: ReportedOffsets
) -> ReportedOffsets:
    """Returns the offsets of the member's tasks; omitted ones keep their values.

    Raises:
        KafkaError: INVALID_REQUEST for a task that is named twice, or more tasks than a topology may have.
    """
    reached, ends = request.task_offsets, request.task_end_offsets
    return ReportedOffsets(
        before.reached if reached is None else _by_task(reached),
        before.ends if ends is None else _by_task(ends),
    )


def _by_task(offsets: Iterable[TaskOffset]) -> TaskOffsets:
    found: dict[str, dict[int, Offset]] = {}
    for number, offset in enumerate(offsets):
        if number == TASKS_MAX:
            raise refused(f"Offsets of more than {TASKS_MAX} tasks are reported.")
        partitions = found.setdefault(offset.subtopology_id, {})
        if offset.partition in partitions:
            raise refused(
                f"Task offsets contain a duplicate entry for subtopology {offset.subtopology_id} and partition "
                f"{offset.partition}."
            )
        partitions[offset.partition] = offset.offset
    return found


def refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
