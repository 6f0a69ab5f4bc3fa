"""Descriptions of streams groups for ListGroups and StreamsGroupDescribe.

Source: `StreamsGroup.asListedGroup`, `-asDescribedGroup`, `StreamsGroupMember.asStreamsGroupDescribeMember`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from trimaran.broker.groups.streams.assignor import TaskOffsets
from trimaran.broker.groups.streams.configuring import (
    ConfiguredSubtopology,
    ConfiguredTopology,
    InternalTopic,
)
from trimaran.broker.groups.streams.group import StreamsGroup
from trimaran.broker.groups.streams.member import StreamsMember
from trimaran.broker.groups.streams.operation import ReportedOffsets, StreamsGroupWork
from trimaran.broker.groups.streams.tasks import MemberTasks, TaskSet
from trimaran.broker.groups.streams.topology import Topology as KnownTopology
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import GroupEpoch
from trimaran.wire.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from trimaran.wire.records.streams_groups import TopicInfo as KnownTopic

STREAMS = "streams"


def described(
    group: StreamsGroup,
    work: StreamsGroupWork,
    assignor: str,
) -> tuple[DescribedGroup, Iterator[Member]]:
    """Returns the description of an immutable group without its members, and an iterator that describes them one by
    one. A topology that can run is described with the partition counts of its internal topics.
    """
    head = DescribedGroup(
        group_id=group.id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group.topology, work.configured),
        members=[],
        assignor_name=assignor,
    )
    nothing, offsets = ReportedOffsets(), dict(work.offsets)
    members = (
        _member(member, group.target.get(member.id, MemberTasks()), offsets.get(member.id, nothing))
        for member in group.members.values()
    )
    return head, members


def refused(group_id: str, code: ErrorCode, message: str | None = None) -> DescribedGroup:
    return DescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=GroupEpoch(0),
        assignment_epoch=GroupEpoch(0),
        members=[],
    )


# -- the topology


def _topology(
    known: KnownTopology | None, configured: ConfiguredTopology | None
) -> Topology | None:
    if configured is not None and configured.is_ready:
        return Topology(
            epoch=configured.epoch,
            subtopologies=[
                _configured(one, found) for one, found in (configured.subtopologies or {}).items()
            ],
        )
    if known is None:
        return None
    return Topology(
        epoch=known.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=one,
                source_topics=sorted(found.source_topics),
                repartition_sink_topics=sorted(found.repartition_sink_topics),
                state_changelog_topics=_known(found.state_changelog_topics),
                repartition_source_topics=_known(found.repartition_source_topics),
            )
            for one, found in sorted(known.subtopologies.items())
        ],
    )


def _configured(subtopology_id: str, found: ConfiguredSubtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=subtopology_id,
        source_topics=sorted(found.source_topics),
        repartition_sink_topics=sorted(found.repartition_sinks),
        state_changelog_topics=_internal(found.changelogs),
        repartition_source_topics=_internal(found.repartition_sources),
    )


def _internal(topics: Mapping[str, InternalTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=_pairs(topic.configs.items()),
        )
        for name, topic in sorted(topics.items())
    ]


def _known(topics: Iterable[KnownTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=_pairs((config.key, config.value) for config in topic.topic_configs),
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _pairs(pairs: Iterable[tuple[str, str]]) -> list[KeyValue]:
    return [KeyValue(key=key, value=value) for key, value in pairs]


# -- members


def _member(member: StreamsMember, target: MemberTasks, offsets: ReportedOffsets) -> Member:
    endpoint = member.endpoint
    return Member(
        member_id=member.id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None
        if endpoint is None
        else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=_pairs(sorted(member.client_tags.items())),
        task_offsets=_offsets(offsets.reached),
        task_end_offsets=_offsets(offsets.ends),
        assignment=_assignment(member.assigned.without_epochs()),
        target_assignment=_assignment(target),
        is_classic=False,
    )


def _assignment(tasks: MemberTasks) -> Assignment:
    return Assignment(
        active_tasks=_task_ids(tasks.active),
        standby_tasks=_task_ids(tasks.standby),
        warmup_tasks=_task_ids(tasks.warmup),
    )


def _task_ids(tasks: TaskSet) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=subtopology, partitions=sorted(partitions))
        for subtopology, partitions in sorted(tasks.items())
    ]


def _offsets(offsets: TaskOffsets) -> list[TaskOffset]:
    return [
        TaskOffset(subtopology_id=subtopology, partition=partition, offset=offset)
        for subtopology, partitions in sorted(offsets.items())
        for partition, offset in sorted(partitions.items())
    ]
