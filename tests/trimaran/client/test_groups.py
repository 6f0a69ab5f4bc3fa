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


def subscription(*topics):
    return encode_subscription(ConsumerProtocolSubscription(topics=list(topics)), 3)


@pytest.mark.parametrize(
    ("protocol", "metadata", "topics", "code"),
    [
        ("consumer", subscription("t"), ["t"], ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),
        ("consumer", subscription("u"), ["u"], None),
        # The bytes behind the topics are malformed; no broker reads them.
        ("consumer", subscription("u")[:9] + b"\xff", ["u"], None),
        ("consumer", subscription("u")[:8], None, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),
        ("consumer", b"", [], None),  # not reported during a rebalance
        ("connect", subscription("t"), None, ErrorCode.NON_EMPTY_GROUP),
    ],
)
def test_consumed_topics_of_classic_members_are_refused(protocol, metadata, topics, code):
    response = classic(protocol=protocol)
    response.groups[0].members[0].member_metadata = metadata
    client = SimpleNamespace(call=lambda *_: response)
    found = {"group": "g", **consumer_groups.classic_described(client, "g")}
    assert found["members"][0]["topics"] == topics
    if code is None:
        consumer_groups.ensure_not_consumed(found, ["t"])
        return
    with pytest.raises(KafkaError) as refused:
        consumer_groups.ensure_not_consumed(found, ["s", "t"])
    assert refused.value.code is code
