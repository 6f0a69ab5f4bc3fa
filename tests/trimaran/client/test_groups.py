"""Lag of groups; that of share groups comes from their coordinator."""

from types import SimpleNamespace

import pytest

from tests.trimaran.client.test_exchanges_about_groups import classic
from trimaran.client import consumer_groups, group_offsets, groups
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    encode_subscription,
)
from trimaran.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

END = 100


def described(*partitions):
    topic = DescribeShareGroupOffsetsResponseTopic(
        topic_name="orders",
        topic_id=bytes(16),
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index, start_offset=start, leader_epoch=0, lag=lag
            )
            for index, start, lag in partitions
        ],
    )
    group = DescribeShareGroupOffsetsResponseGroup(group_id="g", topics=[topic])
    return DescribeShareGroupOffsetsResponse(groups=[group])


@pytest.fixture
def client_of(monkeypatch):
    """Returns a client that receives one response; every partition ends at offset 100."""
    monkeypatch.setattr(
        group_offsets, "end_offsets", lambda _, partitions: dict.fromkeys(partitions, END)
    )

    def build(response):
        def call(destination, request, version=None):
            assert isinstance(request, DescribeShareGroupOffsetsRequest)
            return response

        return SimpleNamespace(call=call)

    return build


def test_lag_of_a_share_group_is_the_coordinators(client_of):
    """50 of the 60 records above the start offset are acknowledged out of order."""
    [row] = groups.offset_rows(client_of(described((0, 40, 10))), {"group": "g", "type": "Share"})
    assert (row["committed"], row["end"], row["lag"]) == (40, END, 10)


def test_lag_unknown_to_coordinator_is_unknown(client_of):
    rows = groups.offset_rows(
        client_of(described((0, 40, -1), (1, -1, -1))), {"group": "g", "type": "share"}
    )
    assert [(row["committed"], row["lag"]) for row in rows] == [(40, None), (None, None)]
    assert groups.total_lag(rows) == 0


@pytest.mark.parametrize(
    ("protocol", "topics", "code"),
    [
        ("consumer", ["t"], ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),
        ("consumer", ["u"], None),
        ("consumer", None, None),  # not reported during a rebalance
        ("connect", ["t"], ErrorCode.NON_EMPTY_GROUP),
    ],
)
def test_consumed_topics_of_classic_members_are_refused(protocol, topics, code):
    response = classic(protocol=protocol)
    if topics is not None:
        subscription = ConsumerProtocolSubscription(topics=topics)
        response.groups[0].members[0].member_metadata = encode_subscription(subscription, 3)
    client = SimpleNamespace(call=lambda *_: response)
    found = {"group": "g", **consumer_groups.classic_described(client, "g")}
    if code is None:
        consumer_groups.ensure_not_consumed(found, ["t"])
        assert found["members"][0]["topics"] == (topics or [])
        return
    with pytest.raises(KafkaError) as refused:
        consumer_groups.ensure_not_consumed(found, ["s", "t"])
    assert refused.value.code is code
