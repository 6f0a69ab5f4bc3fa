"""A member of a share group: its heartbeats, and what responses change."""

import pytest

from trimaran.client.share_member import ShareMembership
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

ID = bytes(range(16))


def answer(epoch=1, partitions=None, code=0, message=None):
    assignment = None
    if partitions is not None:
        assignment = Assignment(
            topic_partitions=[TopicPartitions(topic_id=ID, partitions=partitions)]
        )
    return ShareGroupHeartbeatResponse(
        error_code=code,
        error_message=message,
        member_id="m",
        member_epoch=epoch,
        heartbeat_interval_ms=500,
        assignment=assignment,
    )


def joined():
    member = ShareMembership("g", "m", "t")
    assert member.received(answer(1, [0, 2]), 10.0)
    return member


def test_first_heartbeat_subscribes():
    member = ShareMembership("g", "m", "t")
    assert member.is_due(0.0)
    assert member.heartbeat() == ShareGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["t"]
    )
    assert member.leaving() is None


def test_heartbeats_follow_the_interval():
    member = joined()
    assert [member.is_due(now) for now in (10.0, 10.49, 10.5)] == [False, False, True]
    assert member.heartbeat() == ShareGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=1
    )


def test_assignment_stays_until_another_arrives():
    member = joined()
    assert member.assigned == {TopicIdPartition(ID, 0), TopicIdPartition(ID, 2)}
    member.received(answer(2), 11.0)
    assert len(member.assigned) == 2
    member.received(answer(3, [1]), 12.0)
    assert member.assigned == {TopicIdPartition(ID, 1)}
    assert member.heartbeat().member_epoch == 3


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
def test_removed_member_joins_again(code):
    member = joined()
    assert not member.received(answer(code=code), 11.0)
    assert (member.is_joined, member.assigned, member.is_due(11.0)) == (False, frozenset(), True)
    assert member.heartbeat().subscribed_topic_names == ["t"]
    with pytest.raises(KafkaError):
        member.received(answer(code=code), 11.0)


def test_refusal_is_an_error():
    with pytest.raises(KafkaError) as caught:
        joined().received(answer(code=ErrorCode.GROUP_ID_NOT_FOUND, message="it is none"), 11.0)
    assert (caught.value.code, caught.value.message) == (ErrorCode.GROUP_ID_NOT_FOUND, "it is none")


def test_member_leaves_once():
    member = joined()
    assert member.leaving() == ShareGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=-1
    )
    assert (member.leaving(), member.assigned) == (None, frozenset())
