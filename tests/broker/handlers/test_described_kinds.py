"""Members of described groups are visible only with all their topics."""

from __future__ import annotations

import pytest

from trimaran.broker.handlers import consumer_group_describe, share_group_describe
from trimaran.broker.handlers.described_kinds import visible_members
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages import consumer_group_describe as consumer
from trimaran.wire.messages import share_group_describe as share

TOPICS_OF = {consumer: consumer_group_describe._topics_of, share: share_group_describe._topics_of}


def member_with(wire, where):
    """Returns a member with a topic in one field. A pattern names no topics, and a target may contain partitions that
    are not assigned yet.
    """
    nothing = wire.Assignment(topic_partitions=[])
    topic = wire.TopicPartitions(topic_id=bytes(16), topic_name="secret", partitions=[0])
    fields = {"subscribed_topic_names": [], "assignment": nothing}
    if wire is consumer:
        fields["target_assignment"] = nothing
    is_name = where == "subscribed_topic_names"
    fields[where] = ["secret"] if is_name else wire.Assignment(topic_partitions=[topic])
    return wire.Member(member_id="m", member_epoch=1, client_id="c", client_host="/h", **fields)


@pytest.mark.parametrize(
    ("wire", "where"),
    [
        (consumer, "subscribed_topic_names"),
        (consumer, "assignment"),
        (consumer, "target_assignment"),
        (share, "subscribed_topic_names"),
        (share, "assignment"),
    ],
)
def test_member_with_unauthorized_topic_is_refused(wire, where):
    member, topics_of = member_with(wire, where), TOPICS_OF[wire]
    assert list(visible_members([member], lambda name: name == "secret", topics_of)) == [member]
    with pytest.raises(KafkaError) as refused:
        list(visible_members([member], lambda name: name == "t", topics_of))
    assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
