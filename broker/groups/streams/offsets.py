"""The checks of members that commit and fetch offsets of a streams group.

Source: `StreamsGroup.validateOffsetCommit`, `-Fetch`. KIP-1251: a member that has not received its newest epoch yet may
still commit for the sources of tasks that it already had in the epoch of its request.
"""

from __future__ import annotations

from collections.abc import Callable

from trimaran.broker.groups.heartbeating.offsets import MEMBER_EPOCH_VERSION, member_of
from trimaran.broker.groups.kinds import CheckPartition, all_may
from trimaran.broker.groups.streams.group import StreamsGroup
from trimaran.broker.groups.streams.member import StreamsMember
from trimaran.broker.groups.streams.topology import Topology
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import GroupEpoch, TopicIdPartition
from trimaran.wire.messages.offset_commit import OffsetCommitRequest


def check_commit(
    group: StreamsGroup,
    topic_names: Callable[[bytes], str | None],
    request: OffsetCommitRequest,
    version: int,
    *,
    is_transactional: bool = False,
) -> CheckPartition:
    """Returns the check for each partition of an admitted commit (invariant G1).

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID; STALE_MEMBER_EPOCH; UNSUPPORTED_VERSION if the version of the request has no
            epoch.
    """
    member_id, epoch = request.member_id, GroupEpoch(request.generation_id_or_member_epoch)
    if epoch < 0 and group.is_empty:
        return all_may
    if is_transactional and epoch == -1 and not member_id and request.group_instance_id is None:
        return all_may  # a producer before KIP-447
    member = member_of(group, member_id)
    if not is_transactional and version < MEMBER_EPOCH_VERSION:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the streams group protocol",
        )
    if epoch == member.epoch:
        return all_may
    if epoch > member.epoch or group.topology is None:
        raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)
    return _assigned_since(member, epoch, group.topology, topic_names)


def _assigned_since(
    member: StreamsMember,
    epoch: GroupEpoch,
    topology: Topology,
    topic_names: Callable[[bytes], str | None],
) -> CheckPartition:
    def check(key: TopicIdPartition) -> ErrorCode:
        name = topic_names(key.topic_id)
        subtopology = None if name is None else topology.subtopology_of_source.get(name)
        if subtopology is not None:
            for tasks in (member.assigned.active, member.revoking.active):
                since = tasks.get(subtopology, {}).get(key.partition)
                if since is not None:
                    return ErrorCode.NONE if since <= epoch else ErrorCode.STALE_MEMBER_EPOCH
        return ErrorCode.STALE_MEMBER_EPOCH

    return check
