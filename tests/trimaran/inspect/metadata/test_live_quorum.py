"""Requests of `metadata tail` to a running quorum: it looks up the leader once, and again when its epoch has ended."""

from __future__ import annotations

from typing import Any

import pytest

from trimaran.inspect.metadata.live_quorum import LiveSource
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.quorum.observing.description import describe_quorum
from trimaran.quorum.observing.live_quorum import FETCH_WAIT_MS
from trimaran.quorum.raft_log.partition import TOPIC
from trimaran.wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.messages import fetch
from trimaran.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
)


class Silent:
    """Returns empty responses of the right type."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def call(self, *_: object, **__: object) -> Any:
        return self.answers.pop(0)


def fetched(**changes: Any) -> fetch.FetchResponse:
    partition = fetch.PartitionData(
        **{"partition_index": 0, "high_watermark": 5, "records": None, **changes}
    )
    return fetch.FetchResponse(responses=[fetch.FetchableTopicResponse(partitions=[partition])])


NOTHING = [
    DescribeQuorumResponse(topics=[]),
    DescribeQuorumResponse(
        topics=[DescribeQuorumResponseTopicData(topic_name=TOPIC, partitions=[])]
    ),
]


@pytest.mark.parametrize("answer", NOTHING)
def test_empty_response_is_the_quorums_error(answer: DescribeQuorumResponse):
    with pytest.raises(RemoteProtocolError, match="it has none"):
        describe_quorum(Silent(answer))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "answer",
    [
        fetch.FetchResponse(responses=[]),
        fetch.FetchResponse(responses=[fetch.FetchableTopicResponse(partitions=[])]),
        fetched(snapshot_id=fetch.SnapshotId(end_offset=5, epoch=3)),
        fetched(records=build_batch([NewRecord(None, b"x", 1)] * 5, leader_epoch=3)),
    ],
    ids=["nothing", "no partition", "a snapshot again", "what was before"],
)
def test_discontinuous_log_is_the_quorums_error(answer: fetch.FetchResponse):
    """Otherwise the same records would be requested forever."""
    quorum = Silent(Quorum()._described(), answer)
    with pytest.raises(RemoteProtocolError):
        list(LiveSource(quorum, "the quorum").batches(5))  # type: ignore[arg-type]


class Quorum:
    """Responds as the leader of `epoch`, in place of a client; `asked` has the names of the requests."""

    def __init__(self) -> None:
        self.epoch = 3
        self.asked: list[str] = []
        self.waits: list[int] = []
        self.error = ErrorCode.NONE

    def call(self, _to: object, request: Any, *, retried: frozenset[int] = frozenset(), **_: Any):
        self.asked.append(type(request).__name__.removesuffix("Request"))
        if isinstance(request, DescribeQuorumRequest):
            return self._described()
        self.waits.append(request.max_wait_ms)
        told = request.topics[0].partitions[0].current_leader_epoch
        code = ErrorCode.FENCED_LEADER_EPOCH if told < self.epoch else self.error
        assert code not in retried, "asked again with the same epoch it says the same for ever"
        partition = fetch.PartitionData(
            partition_index=0, error_code=code, high_watermark=5, records=None
        )
        topic = fetch.FetchableTopicResponse(partitions=[partition])
        return fetch.FetchResponse(responses=[topic])

    def _described(self) -> DescribeQuorumResponse:
        partition = DescribeQuorumResponsePartitionData(
            partition_index=0,
            leader_id=1,
            leader_epoch=self.epoch,
            high_watermark=5,
            current_voters=[],
            observers=[],
        )
        topic = DescribeQuorumResponseTopicData(topic_name=TOPIC, partitions=[partition])
        return DescribeQuorumResponse(topics=[topic])


def test_leader_is_looked_up_once_per_epoch():
    quorum = Quorum()
    live = LiveSource(quorum, "the quorum")  # type: ignore[arg-type]
    for _ in range(3):
        assert live._fetch(5, 3).high_watermark == 5
    assert quorum.asked == ["DescribeQuorum", "Fetch", "Fetch", "Fetch"]
    quorum.asked.clear()
    quorum.epoch = 4
    assert live._fetch(5, 3).high_watermark == 5
    assert quorum.asked == ["Fetch", "DescribeQuorum", "Fetch"]


def test_other_error_is_raised():
    quorum = Quorum()
    quorum.error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(KafkaError, match="while reading the metadata log"):
        LiveSource(quorum, "the quorum")._fetch(5, 3)  # type: ignore[arg-type]


def test_available_records_are_returned_without_waiting():
    quorum = Quorum()
    live = LiveSource(quorum, "the quorum")  # type: ignore[arg-type]
    assert list(live.batches(5)) == []
    assert quorum.waits == [0]
    quorum.waits.clear()
    quorum.error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(KafkaError):
        list(live.batches(5, follow=True))
    assert quorum.waits == [FETCH_WAIT_MS]
