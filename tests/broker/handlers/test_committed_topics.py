"""The topics of commits: by id or by name, existing or not, readable or not."""

from __future__ import annotations

import pytest

from tests.broker.groups.rig import TOPIC_ID, cluster_image, topic_image
from trimaran.broker.handlers.committed_topics import find_topic
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.offset_commit import OffsetCommitRequestTopic
from trimaran.wire.messages.txn_offset_commit import TxnOffsetCommitRequestTopic

E = ErrorCode


@pytest.mark.parametrize("request_topic", [OffsetCommitRequestTopic, TxnOffsetCommitRequestTopic])
@pytest.mark.parametrize("may_read", [True, False])
def test_unauthorized_name_is_hidden_unknown_id_reported(may_read, request_topic):
    """An unknown id has no name that could be authorized."""
    known = topic_image("t", TOPIC_ID, 2)
    topics = cluster_image(known).topics
    judged = []

    def judge(name):
        judged.append(name)
        return may_read

    def found(*, name="", topic_id=bytes(16)):
        asked = request_topic(name=name, topic_id=topic_id, partitions=[])
        return find_topic(asked, topics, judge, by_id=not name)

    denied = (None, E.TOPIC_AUTHORIZATION_FAILED)
    here = (known, E.UNKNOWN_TOPIC_OR_PARTITION) if may_read else denied
    assert found(name="t") == here
    assert found(topic_id=TOPIC_ID) == here
    assert judged == ["t", "t"]
    for unknown in (b"u" * 16, bytes(16)):
        assert found(topic_id=unknown) == (None, E.UNKNOWN_TOPIC_ID)
    assert judged == ["t", "t"]
    missing = (None, E.UNKNOWN_TOPIC_OR_PARTITION)
    assert found(name="nowhere") == (missing if may_read else denied)
    assert judged[2:] == ["nowhere"]
