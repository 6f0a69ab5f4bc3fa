"""StreamsGroupHeartbeat: a member joins, stays or leaves, and approaches its target.

Source: `GroupMetadataManager.streamsGroupHeartbeat`, `-Leave` of Kafka 4.4 (KIP-1071, KIP-1331, KIP-1357).
Intentional difference: a member that reports other tasks than it is assigned, or may have lost them, gets them again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from trimaran.broker import events
from trimaran.broker.groups.heartbeating.admission import known_static
from trimaran.broker.groups.heartbeating.member import JOINING_EPOCH, LEAVING_STATIC_EPOCH
from trimaran.broker.groups.streams import assigning, fencing
from trimaran.broker.groups.streams.admission import (
    admit,
    known_member,
)
from trimaran.broker.groups.streams.configuring import (
    ConfiguredSubtopology,
    ConfiguredTopology,
    GroupProblem,
    InternalTopic,
    Status,
    configured,
)
from trimaran.broker.groups.streams.descriptions import DESCRIPTION_RETRY_MS
from trimaran.broker.groups.streams.group import StreamsGroup
from trimaran.broker.groups.streams.member import (
    NO_TOPOLOGY_EPOCH,
    StreamsMember,
)
from trimaran.broker.groups.streams.operation import (
    ReportedOffsets,
    StreamsOperation,
    StreamsTimer,
)
from trimaran.broker.groups.streams.reconciliation import Reported, check_state, reconcile
from trimaran.broker.groups.streams.records import topology_record
from trimaran.broker.groups.streams.requests import refused, reported_offsets, reported_tasks
from trimaran.broker.groups.streams.tasks import AssignedTasks, MemberTasks, TaskSet
from trimaran.broker.groups.streams.topology import Topology, topology_value
from trimaran.broker.groups.topics import metadata_hash
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import INITIAL_ENDPOINT_EPOCH, Address
from trimaran.wire.messages import streams_group_heartbeat as wire
from trimaran.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)

log = logging.getLogger(__name__)

# From this version on a response can report missing client tags, and request a description of the topology.
CLIENT_TAGS_VERSION = DESCRIPTION_VERSION = 1


@dataclass(frozen=True, slots=True)
class StreamsHeartbeatAnswer:
    """The response, and the internal topics that the handler is to create."""

    response: StreamsGroupHeartbeatResponse
    missing: Mapping[str, InternalTopic] = field(default_factory=dict)


def heartbeat(
    operation: StreamsOperation,
    request: StreamsGroupHeartbeatRequest,
    version: int,
    client: tuple[str, str],
) -> StreamsHeartbeatAnswer:
    """Decides on records and returns the answer; `client` is the member's client id and host.

    Raises:
        KafkaError: as `admit` does; INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY.
    """
    group, work, joins = operation.group, operation.work, request.member_epoch == JOINING_EPOCH
    reported = reported_tasks(request)
    was_empty = group.is_empty
    before = admit(operation, request, reported)
    check_state(before, reported)
    updated = _updated(before, request, client)
    topology, is_new = _topology(group, request)
    problems = _staleness(group, updated)
    plan = _Plan(operation, topology, is_new)
    if plan.configured.is_ready:
        _check_tasks(plan.configured.subtopologies or {}, reported)
    offsets = reported_offsets(request, work.offsets.get(before.id, ReportedOffsets()))
    changed = _write_member(operation, before, updated)
    if is_new:
        operation.write([topology_record(group.id, topology.value)])
    plan.settle(changed)
    if offsets.count or before.id in work.offsets:
        work.offsets[before.id] = offsets
    if was_empty and not operation.has_timer(StreamsTimer.INITIAL):
        _delay_first_target(operation)
    if (delay := assigning.assign_if_due(operation, plan.configured)) is not None:
        problems.append(delay)
    moved = move_on(operation, updated.id, reported)
    operation.expect_heartbeat(moved)
    if request.shutdown_application:
        work.shutdown_by = work.shutdown_by or moved.id
    if plan.configured.problem is not None:
        problems.append(plan.configured.problem)
    problems += _shutdown(operation)
    if version >= CLIENT_TAGS_VERSION:
        problems += _missing_tags(operation, moved)
    response = _response(operation, moved, problems)
    if version >= DESCRIPTION_VERSION:
        response.topology_description_required = _needs_description(operation, topology, problems)
    if joins or _may_lack_tasks(operation, before, moved, reported):
        response.active_tasks = _task_ids(moved.assigned.without_epochs().active)
        response.standby_tasks = _task_ids(moved.assigned.standby)
        response.warmup_tasks = _task_ids(moved.assigned.warmup)
    _tell_endpoints(operation, before, moved, response)
    if work.endpoint_information_epoch != request.endpoint_information_epoch:
        response.partitions_by_user_endpoint = work.endpoints.of(
            group.members.values(), plan.configured, operation.topics
        )
    return StreamsHeartbeatAnswer(response, plan.configured.missing)


def _may_lack_tasks(
    operation: StreamsOperation,
    before: StreamsMember,
    moved: StreamsMember,
    reported: Reported,
) -> bool:
    """Whether the tasks have changed, or the member may not have received them. A member that reports other tasks is
    still changing its tasks, or has not received the response with them; in Kafka, a member whose response is lost
    waits for the next assignment.
    """
    has_changed = before.assigned != moved.assigned
    is_confirmed = reported is not None and reported == moved.assigned.without_epochs()
    may_lack = reported is not None and not is_confirmed
    if has_changed or operation.work.unconfirmed:
        is_changed = has_changed and before.epoch == moved.epoch
        may_lack |= operation.may_lack_assignment(
            moved, is_confirmed=is_confirmed, is_changed=is_changed
        )
    return has_changed or may_lack


def _tell_endpoints(
    operation: StreamsOperation,
    before: StreamsMember,
    moved: StreamsMember,
    response: StreamsGroupHeartbeatResponse,
) -> None:
    """Increments the epoch of the endpoints if the member's endpoint or its tasks have changed."""
    has_moved = before.assigned != moved.assigned and moved.endpoint is not None
    if before.endpoint != moved.endpoint or has_moved:
        operation.work.endpoint_information_epoch += 1
    response.endpoint_information_epoch = operation.work.endpoint_information_epoch


# -- the member


def _updated(
    member: StreamsMember, request: StreamsGroupHeartbeatRequest, client: tuple[str, str]
) -> StreamsMember:
    """Returns the member with the fields of the request; omitted fields keep their values, but a joining member without
    an endpoint loses it.
    """
    endpoint, tags = request.user_endpoint, request.client_tags
    kept = None if request.member_epoch == JOINING_EPOCH else member.endpoint
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=client[0],
        client_host=client[1],
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms
            if request.rebalance_timeout_ms == -1
            else request.rebalance_timeout_ms
        ),
        topology_epoch=(
            member.topology_epoch if request.topology is None else request.topology.epoch
        ),
        process_id=member.process_id if request.process_id is None else request.process_id,
        endpoint=kept if endpoint is None else Address(endpoint.host, endpoint.port),
        client_tags=(member.client_tags if tags is None else {tag.key: tag.value for tag in tags}),
    )


def _write_member(
    operation: StreamsOperation, before: StreamsMember, member: StreamsMember
) -> bool:
    """Writes the member's own fields if they have changed; returns whether the change requires a new target. For a
    static member only some fields do, so that it may return without a new target.
    """
    if before == member:
        return False
    is_new = before.id not in operation.group.members
    operation.check_memory(member.held_bytes - (0 if is_new else before.held_bytes))
    operation.write_member(member)
    return member.instance_id is None or _declared(before) != _declared(member)


def _declared(member: StreamsMember) -> tuple[object, ...]:
    return member.topology_epoch, member.rack_id, member.client_tags, member.process_id


def move_on(operation: StreamsOperation, member_id: str, reported: Reported) -> StreamsMember:
    """Moves the member one step towards its target."""
    group = operation.group
    member = group.members[member_id]
    target = group.target.get(member_id, MemberTasks())
    moved = reconcile(member, group.assignment_epoch, target, group, reported)
    if operation.replaced:
        operation.cancel_timers(operation.replaced)
    if moved is not member and moved != member:
        operation.write_step(moved)
    return moved


# -- the topology


def _topology(group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> tuple[Topology, bool]:
    """Returns the topology of the group, and whether it is new, from the request.

    Raises:
        KafkaError: INVALID_REQUEST if the request has another topology, unless that is older; FENCED_MEMBER_EPOCH if
            neither the group nor the request has a topology: a member sends its own when it rejoins.
    """
    if request.topology is None:
        if group.topology is None:
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The streams group has no topology. The member must abandon all its tasks and rejoin.",
            )
        return group.topology, False
    told = Topology(topology_value(request.topology))
    if group.topology is None:
        return told, True
    if group.topology.epoch <= told.epoch and group.topology != told:
        raise refused("Topology updates are not supported yet.")
    return group.topology, False


def _staleness(group: StreamsGroup, member: StreamsMember) -> list[GroupProblem]:
    if group.topology is None or member.topology_epoch >= group.topology.epoch:
        return []
    detail = (
        f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch "
        f"{group.topology.epoch}."
    )
    return [GroupProblem(Status.STALE_TOPOLOGY, detail)]


class _Plan:
    """The topology as configured for the newest topics. It is kept with the group only when the request is admitted."""

    def __init__(self, operation: StreamsOperation, topology: Topology, is_new: bool) -> None:
        """Raises KafkaError STREAMS_INVALID_TOPOLOGY."""
        self._operation = operation
        self._topology = topology
        group, work, topics = operation.group, operation.work, operation.topics
        self._hash = group.metadata_hash
        known = None if is_new else work.configured
        if known is None or work.checked_topics is not topics.version:
            self._hash = metadata_hash(topology.required_topics, topics)
            if self._hash != group.metadata_hash or self._hash != work.metadata_hash:
                known = None
        self.configured: ConfiguredTopology = known or configured(topology, topics)

    def settle(self, must_assign: bool) -> None:
        """Increments the epoch if the members, the topics or the settings have changed."""
        operation, group, work = self._operation, self._operation.group, self._operation.work
        work.configured, work.metadata_hash = self.configured, self._hash
        work.checked_topics = operation.topics.version
        validated = self._topology.epoch if self.configured.is_ready else NO_TOPOLOGY_EPOCH
        configs = operation.settings.assignment_configs
        if (
            must_assign
            or self._hash != group.metadata_hash
            or validated != group.validated_topology_epoch
            or configs != group.assignment_configs
        ):
            group.metadata_hash = self._hash
            group.validated_topology_epoch = validated
            group.assignment_configs = configs
            operation.bump_epoch()


def _check_tasks(subtopologies: Mapping[str, ConfiguredSubtopology], reported: Reported) -> None:
    """Raises KafkaError INVALID_REQUEST if a reported task is not in the topology."""
    for role in reported or ():
        for subtopology_id, partitions in role.items():
            subtopology = subtopologies.get(subtopology_id)
            if subtopology is None:
                raise refused(f"Subtopology {subtopology_id} does not exist in the topology.")
            wrong = [one for one in partitions if not 0 <= one < subtopology.task_count]
            if wrong:
                raise refused(
                    f"Task {min(wrong)} for subtopology {subtopology_id} is invalid. Number of tasks for this "
                    f"subtopology: {subtopology.task_count}"
                )


def _delay_first_target(operation: StreamsOperation) -> None:
    """Lets more members join before the first target of a group without members."""
    delay_ms = operation.settings.initial_rebalance_delay_ms
    if delay_ms > 0:
        operation.set_timer(StreamsTimer.INITIAL, delay_ms)


# -- the response


def _shutdown(operation: StreamsOperation) -> list[GroupProblem]:
    member_id = operation.work.shutdown_by
    if not member_id:
        return []
    detail = (
        f"Streams group member {member_id} encountered a fatal error and requested a shutdown for the entire "
        "application."
    )
    return [GroupProblem(Status.SHUTDOWN_APPLICATION, detail)]


def _missing_tags(operation: StreamsOperation, member: StreamsMember) -> list[GroupProblem]:
    missing = [tag for tag in operation.settings.rack_aware_tags if tag not in member.client_tags]
    if not missing:
        return []
    detail = (
        f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing)}]. Configure them via "
        "'client.tag.<tagKey>' in your Streams config."
    )
    return [GroupProblem(Status.MISSING_CLIENT_TAGS, detail)]


def _needs_description(
    operation: StreamsOperation, topology: Topology, problems: Iterable[GroupProblem]
) -> bool:
    """Returns whether the response requests a description of the topology: not if the description is known or was
    refused, if the member's topology is stale, or if the last request for the description is recent.
    """
    work, now_ms = operation.work, operation.at.now_ms
    if topology.epoch in (work.described_epoch, work.undescribed_epoch):
        return False
    is_stale = any(problem.status is Status.STALE_TOPOLOGY for problem in problems)
    if is_stale or now_ms < work.description_due_ms:
        return False
    work.description_due_ms = now_ms + DESCRIPTION_RETRY_MS
    return True


def _response(
    operation: StreamsOperation, member: StreamsMember, problems: Iterable[GroupProblem]
) -> StreamsGroupHeartbeatResponse:
    settings = operation.settings
    return StreamsGroupHeartbeatResponse(
        member_id=member.id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        task_offset_interval_ms=settings.task_offset_interval_ms,
        acceptable_recovery_lag=settings.acceptable_recovery_lag,
        status=[
            wire.Status(status_code=problem.status, status_detail=problem.detail)
            for problem in problems
        ],
        endpoint_information_epoch=INITIAL_ENDPOINT_EPOCH,
    )


def _task_ids(tasks: TaskSet) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=subtopology, partitions=sorted(partitions))
        for subtopology, partitions in sorted(tasks.items())
    ]


# -- leaving


def leave(
    operation: StreamsOperation, request: StreamsGroupHeartbeatRequest
) -> StreamsHeartbeatAnswer:
    """Removes a member, or marks a static member as temporarily gone (epoch -2).

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    group, member_id = operation.group, request.member_id
    if request.instance_id is None:
        member = known_member(group, member_id)
    else:
        member = known_static(group, member_id, request.instance_id)
    if request.shutdown_application:
        operation.work.shutdown_by = operation.work.shutdown_by or member_id
    if request.instance_id is not None and request.member_epoch == LEAVING_STATIC_EPOCH:
        events.GROUP_STATIC_MEMBER_LEFT.log(log, group=group.id, instance=request.instance_id)
        operation.write_current(_absent(member))
    else:
        events.GROUP_MEMBER_LEFT.log(log, group=group.id, member=member_id)
        fencing.remove(operation, member)
    return StreamsHeartbeatAnswer(
        StreamsGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=request.member_epoch,
            heartbeat_interval_ms=0,
            task_offset_interval_ms=0,
            status=[],
            endpoint_information_epoch=INITIAL_ENDPOINT_EPOCH,
        )
    )


def _absent(member: StreamsMember) -> StreamsMember:
    """Returns a static member that is temporarily gone. Its tasks get epoch 0, so that its next incarnation may commit
    their offsets.
    """
    active = {
        subtopology: dict.fromkeys(partitions, JOINING_EPOCH)
        for subtopology, partitions in member.assigned.active.items()
    }
    assigned = member.assigned._replace(active=active)
    return replace(member, epoch=LEAVING_STATIC_EPOCH, assigned=assigned, revoking=AssignedTasks())
