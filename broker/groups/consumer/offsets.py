"""The checks of members that commit and fetch offsets of a consumer group.

Source: `ConsumerGroup.validateOffsetCommit`, `-Fetch`, `OffsetMetadataManager.validateTransactionalOffsetCommit` of
Kafka 4.4 (KIP-1319). KIP-1251: a member that has not received its newest epoch yet may still commit for partitions
that it already owned in the epoch of its request.
"""

from __future__ import annotations

from trimaran.broker.groups.consumer.group import ConsumerGroup
from trimaran.broker.groups.consumer.member import ConsumerMember
from trimaran.broker.groups.heartbeating.offsets import MEMBER_EPOCH_VERSION, member_of
from trimaran.broker.groups.kinds import CheckPartition, all_may
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import GroupEpoch, TopicIdPartition
from trimaran.wire.messages.offset_commit import OffsetCommitRequest

# From this version on a commit in a transaction has an error for an old member epoch.
TXN_STALE_EPOCH_VERSION = 6


def check_commit(
    group: ConsumerGroup,
    member_id: str,
    epoch: GroupEpoch,
    version: int,
    *,
    is_transactional: bool = False,
    instance_id: str | None = None,
) -> CheckPartition:
    """Returns the check for each partition of an admitted commit (invariant G1), by an OffsetCommit or a
    TxnOffsetCommit of this version.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID; STALE_MEMBER_EPOCH, or ILLEGAL_GENERATION for members of the classic protocol
            and in old versions of TxnOffsetCommit; UNSUPPORTED_VERSION if the version of the request has no epoch.
    """
    if epoch < 0 and group.is_empty:
        return all_may
    if is_transactional and epoch == -1 and not member_id and instance_id is None:
        return all_may  # a producer before KIP-447
    member = member_of(group, member_id)
    classic = member.uses_classic_protocol
    if not is_transactional and not classic and version < MEMBER_EPOCH_VERSION:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the consumer group protocol",
        )
    old = is_transactional and version < TXN_STALE_EPOCH_VERSION
    stale = ErrorCode.ILLEGAL_GENERATION if classic or old else ErrorCode.STALE_MEMBER_EPOCH
    if epoch > member.epoch:
        raise KafkaError(stale)
    return all_may if epoch == member.epoch else _assigned_since(member, epoch, stale)


def _assigned_since(member: ConsumerMember, epoch: GroupEpoch, stale: ErrorCode) -> CheckPartition:
    def check(key: TopicIdPartition) -> ErrorCode:
        for owned in (member.assigned, member.revoking):
            since = owned.get(key.topic_id, {}).get(key.partition)
            if since is not None:
                return ErrorCode.NONE if since <= epoch else stale
        return stale

    return check


def check_commit_request(
    group: ConsumerGroup, request: OffsetCommitRequest, version: int
) -> CheckPartition:
    """Returns the check for an OffsetCommit. Raises as `check_commit` does."""
    epoch = GroupEpoch(request.generation_id_or_member_epoch)
    return check_commit(group, request.member_id, epoch, version)


def check_transactional_commit(
    group: ConsumerGroup, request: OffsetCommitRequest, version: int
) -> CheckPartition:
    """Returns the check for a TxnOffsetCommit. Raises as `check_commit` does."""
    return check_commit(
        group,
        request.member_id,
        GroupEpoch(request.generation_id_or_member_epoch),
        version,
        is_transactional=True,
        instance_id=request.group_instance_id,
    )
