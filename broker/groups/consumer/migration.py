"""Online migration between the protocols (KIP-848): a classic group becomes a consumer group when the first member of
the consumer protocol joins, and a classic group again when the last such member leaves.

Source: `GroupMetadataManager.convertToConsumerGroup`, `convertToClassicGroup`, `ConsumerGroup.fromClassicGroup`,
`ClassicGroup.fromConsumerGroup` of Kafka 4.4. Each conversion is one batch of records. Offsets do not change.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from trimaran.broker import events
from trimaran.broker.groups.classic.group import ClassicGroup, GroupState
from trimaran.broker.groups.classic.member import CONSUMER_PROTOCOL, Member
from trimaran.broker.groups.classic.operation import ClassicTimer
from trimaran.broker.groups.classic.records import group_record, group_value
from trimaran.broker.groups.consumer.group import ConsumerGroup
from trimaran.broker.groups.consumer.member import ConsumerMember, Owned
from trimaran.broker.groups.consumer.operation import ConsumerOperation, ConsumerTimer
from trimaran.broker.groups.consumer.records import RECORDS, epoch_record, group_tombstones
from trimaran.broker.groups.consumer.settings import ConsumerGroupSettings
from trimaran.broker.groups.heartbeating.member import Partitions
from trimaran.broker.groups.heartbeating.operation import HeartbeatTimer
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.topics import Topics
from trimaran.wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.identity import GroupEpoch
from trimaran.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from trimaran.wire.records.consumer_groups import ClassicMemberMetadata, ClassicProtocol

log = logging.getLogger(__name__)


# -- classic to consumer


def upgrade(
    classic: ClassicGroup, settings: ConsumerGroupSettings, topics: Topics, now_ms: int
) -> list[GroupRecord]:
    """Returns the records that convert the group with its members, epoch and assignment; an empty group is only
    removed, so that the consumer group starts empty.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND if the group is not a consumer group and must not or cannot become one.
    """
    if classic.state is GroupState.EMPTY:
        return [group_record(classic.id, None)]
    if not settings.migration.may_upgrade:
        why = "online upgrade is not enabled by group.consumer.migration.policy"
    elif not classic.uses_consumer_protocol:
        why = f"its protocol type is {classic.protocol_type}"
    elif len(classic.members) >= settings.members_max:
        why = "it has more members than group.consumer.max.size"
    else:
        try:
            records = list(_upgraded(classic, topics, now_ms))
        except RemoteProtocolError as error:
            why = f"a member's subscription or assignment is malformed: {error}"
        else:
            events.GROUP_UPGRADED.log(log, group=classic.id, members=len(classic.members))
            return records
    raise KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Group {classic.id} is not a consumer group: {why}."
    )


def _upgraded(classic: ClassicGroup, topics: Topics, now_ms: int) -> Iterator[GroupRecord]:
    # Without a generation the epoch would be 0, which means a joining member.
    group_id, epoch = classic.id, GroupEpoch(max(1, classic.generation))
    yield group_record(group_id, None)
    members = [_consumer_member(member, epoch, topics) for member in classic.members.values()]
    for member in members:
        yield RECORDS.member(group_id, member)
    yield epoch_record(group_id, epoch, 0)
    for member in members:
        target = {topic_id: frozenset(mine) for topic_id, mine in member.assigned.items()}
        yield RECORDS.target(group_id, member.id, target)
    yield RECORDS.assignment_epoch(group_id, epoch, now_ms)
    for member in members:
        yield RECORDS.current(group_id, member)


def _consumer_member(member: Member, epoch: GroupEpoch, topics: Topics) -> ConsumerMember:
    """Converts a member. Raises RemoteProtocolError if its subscription or assignment is malformed."""
    subscription = decode_subscription(member.protocols[0][1])
    assigned: dict[bytes, dict[int, GroupEpoch]] = {}
    if member.assignment:
        for assigned_topic in decode_assignment(member.assignment).assigned_partitions:
            topic = topics.find(assigned_topic.topic)
            if topic is not None:
                assigned.setdefault(topic.id, {}).update(
                    dict.fromkeys(assigned_topic.partitions, epoch)
                )
    return ConsumerMember(
        id=member.id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        subscribed_names=tuple(sorted(set(subscription.topics))),
        classic=classic_metadata(member.session_timeout_ms, member.protocols),
        epoch=epoch,
        previous_epoch=epoch,
        assigned=assigned,
    )


def classic_metadata(
    session_timeout_ms: int, protocols: tuple[tuple[str, bytes], ...]
) -> ClassicMemberMetadata:
    return ClassicMemberMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=[
            ClassicProtocol(name=name, metadata=metadata) for name, metadata in protocols
        ],
    )


# -- consumer to classic


def downgrade_if_classic(operation: ConsumerOperation) -> bool:
    """Converts a group that only has members of the classic protocol to a classic group, if the policy allows it."""
    group, settings = operation.group, operation.settings
    if (
        group.is_empty
        or group.classic_count < len(group.members)
        or not settings.migration.may_downgrade
        or len(group.members) > settings.classic_members_max
    ):
        return False
    events.GROUP_DOWNGRADED.log(log, group=group.id, members=len(group.members))
    record = _classic_record(operation)
    for member_id in group.members:
        for kind in (
            HeartbeatTimer.REVOCATION,
            ConsumerTimer.CLASSIC_JOIN,
            ConsumerTimer.CLASSIC_SYNC,
        ):
            operation.cancel_timer(kind, member_id)
    operation.write(list(group_tombstones(group)))
    operation.records.append(record)
    operation.cancel_timer(HeartbeatTimer.TARGET)
    operation.set_timer(ClassicTimer.DOWNGRADE, 0)
    return True


def _classic_record(operation: ConsumerOperation) -> GroupRecord:
    group = operation.group
    classic = ClassicGroup(group.id, operation.at.now_ms)
    assignments: dict[str, bytes] = {}
    for member in group.members.values():
        assert member.classic is not None
        assignments[member.id] = classic_assignment(member, operation.topics)
        classic.add(
            Member(
                id=member.id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.session_timeout_ms,
                protocol_type=CONSUMER_PROTOCOL,
                protocols=tuple((p.name, p.metadata) for p in member.classic.supported_protocols),
            )
        )
    classic.generation = group.epoch
    classic.protocol_name = classic.select_protocol()
    value = group_value(classic, assignments)
    # There was no election yet: a coordinator that takes over starts a rebalance (`is_to_rebalance`).
    value.leader = None
    return group_record(group.id, value)


# -- messages of the consumer protocol type


def classic_assignment(member: ConsumerMember, topics: Topics) -> bytes:
    """Returns the assignment for SyncGroup, in the version of the member's subscription."""
    assert member.classic is not None
    metadata = member.classic.supported_protocols[0].metadata
    version = min(int.from_bytes(metadata[:2], "big"), ConsumerProtocolAssignment.VERSIONS.high)
    return encode_assignment(
        ConsumerProtocolAssignment(
            assigned_partitions=[
                ConsumerProtocolAssignmentTopicPartition(topic=name, partitions=sorted(partitions))
                for topic_id, partitions in member.assigned.items()
                if (name := topics.name_of(topic_id)) is not None
            ]
        ),
        version,
    )


def owned_by_subscription(subscription: ConsumerProtocolSubscription, topics: Topics) -> Partitions:
    """Returns the partitions that a member of the classic protocol reports as owned in its JoinGroup request."""
    found: dict[bytes, frozenset[int]] = {}
    for owned in subscription.owned_partitions:
        topic = topics.find(owned.topic)
        if topic is not None:
            found[topic.id] = found.get(topic.id, frozenset()) | frozenset(owned.partitions)
    return found


def waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Returns whether other members still own partitions of the member's target."""
    target: Mapping[bytes, frozenset[int]] = group.target.get(member.id, {})
    assigned: Owned = member.assigned
    owners: Mapping[bytes, Mapping[int, str]] = group.owners
    return any(
        owners.get(topic_id, {}).get(partition) not in (None, member.id)
        for topic_id, partitions in target.items()
        for partition in partitions
        if partition not in assigned.get(topic_id, {})
    )
