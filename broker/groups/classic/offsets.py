"""Checks commits of offsets in a classic group, or in a group that only has offsets.

Source: `ClassicGroup.validateOffsetCommit` and `OffsetMetadataManager.validateTransactionalOffsetCommit` of Kafka 4.4
(KIP-447, KIP-1319).
"""

from __future__ import annotations

from trimaran.broker.groups.classic.group import ClassicGroup, GroupState
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.offset_commit import OffsetCommitRequest

S = GroupState

# From this version on a commit to a missing group has its own error.
GROUP_ID_NOT_FOUND_VERSION = 9
# The corresponding version for commits in transactions.
TXN_GROUP_ID_NOT_FOUND_VERSION = 6


def check_commit(
    group: ClassicGroup | None, request: OffsetCommitRequest, version: int, exists: bool
) -> None:
    """Fences old generations (invariant G1); a commit without a generation requires a group without members.

    `exists` is True if the group has offsets, even without a state of its own.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS,
            GROUP_ID_NOT_FOUND.
    """
    generation = request.generation_id_or_member_epoch
    if group is None or group.state is S.EMPTY:
        if generation < 0:
            return
        if group is None and not exists:
            not_found = version >= GROUP_ID_NOT_FOUND_VERSION
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND if not_found else ErrorCode.ILLEGAL_GENERATION
            )
    if group is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    group.check_member(request.member_id, request.group_instance_id)
    if generation != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    if group.state is S.COMPLETING_REBALANCE:
        # The member knows its generation but not its partitions: it must wait for them.
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)


def check_transactional_commit(
    group: ClassicGroup | None, request: OffsetCommitRequest, version: int, exists: bool
) -> None:
    """Checks a commit as `check_commit` does, for a producer, which names a member and its generation from version 3 on
    (KIP-447).

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, GROUP_ID_NOT_FOUND.
    """
    generation = request.generation_id_or_member_epoch
    names_member = generation >= 0 or request.member_id or request.group_instance_id is not None
    if not names_member or (generation < 0 and (group is None or group.state is S.EMPTY)):
        return
    if group is None and not exists:
        not_found = version >= TXN_GROUP_ID_NOT_FOUND_VERSION
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND if not_found else ErrorCode.ILLEGAL_GENERATION
        )
    if group is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    group.check_member(request.member_id, request.group_instance_id)
    if generation != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
