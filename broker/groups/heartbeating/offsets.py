"""The common part of the checks of members that commit and fetch offsets.

Source: `ConsumerGroup.validateOffsetFetch`, `StreamsGroup.validateOffsetFetch` of Kafka 4.4.
"""

from __future__ import annotations

from typing import Any, TypeVar

from trimaran.broker.groups.heartbeating.group import HeartbeatGroup
from trimaran.broker.groups.heartbeating.member import HeartbeatMember
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.offset_fetch import OffsetFetchRequestGroup

M = TypeVar("M", bound=HeartbeatMember)

# From this version on a request has a member epoch; older clients treat the field as a generation.
MEMBER_EPOCH_VERSION = 9


def check_fetch(group: HeartbeatGroup[M, Any], request: OffsetFetchRequestGroup) -> None:
    """Raises KafkaError UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH; a request without a member may always read."""
    if request.member_id is None and request.member_epoch < 0:
        return
    member = member_of(group, request.member_id or "")
    if request.member_epoch != member.epoch:
        raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)


def member_of(group: HeartbeatGroup[M, Any], member_id: str) -> M:
    """Returns the member. Raises KafkaError UNKNOWN_MEMBER_ID."""
    member = group.members.get(member_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member
