"""A forwarded change is answered when this broker's image has it, after a second at the latest; a read at once."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.broker.calls import connection
from trimaran.broker.channels.forwarding import Forwarder
from trimaran.broker.metadata.metadata_cache import BrokerMetadata
from trimaran.broker.metadata.read_index import ReadIndex
from trimaran.quorum.controller.handlers.forwarded import FORWARDED_HANDLERS
from trimaran.quorum.controller.handlers.list_partition_reassignments import (
    list_partition_reassignments,
)
from trimaran.quorum.handlers.describe_quorum import describe_quorum
from trimaran.quorum.metadata.image import MetadataImage, Provenance
from trimaran.quorum.raft_log.partition import TOPIC_ID
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import LeaderEpoch, Offset
from trimaran.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from trimaran.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from trimaran.wire.messages.header import RequestHeader
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import declaration_of

EPOCH, SEEN_EPOCH = LeaderEpoch(3), LeaderEpoch(2)
SEEN, CHANGED = Offset(40), Offset(41)
READS = (describe_quorum, list_partition_reassignments)
ANSWER = (1).to_bytes(4, "big") + bytes(16)  # the response to correlation id 1


def image_at(offset: Offset) -> MetadataImage:
    return MetadataImage(provenance=Provenance(offset, SEEN_EPOCH, 0))


def fetched(high_watermark: int) -> FetchResponse:
    partition = PartitionData(partition_index=0, high_watermark=high_watermark, records=None)
    topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[partition])
    return FetchResponse(responses=[topic])


class Leader:
    """A controller that makes every change; the broker has it after half a second, or never if not `is_seen`."""

    def __init__(self, answer: FetchResponse | KafkaError, *, is_seen: bool = True) -> None:
        self.answer = answer
        self.is_seen = is_seen
        self.metadata = BrokerMetadata(image_at(SEEN))
        self.changes = 0
        self.fetches: list[FetchRequest] = []

    async def call(self, request: Any, *, timeout: float) -> Any:  # noqa: ASYNC109
        del timeout
        await trio.lowlevel.checkpoint()
        if isinstance(request, EnvelopeRequest):
            self.changes += 1
            return EnvelopeResponse(response_data=ANSWER)
        assert self.changes == 1, "a high watermark of before the change"
        self.fetches.append(request)
        if isinstance(self.answer, KafkaError):
            raise self.answer
        return self.answer

    async def publish(self) -> None:
        if self.is_seen:
            await trio.sleep(0.5)
            self.metadata.set(image_at(CHANGED))

    async def seconds_of(self, handler: Any) -> float:
        """Returns how long a client waits for the answer to a request of the handler's API."""
        row = declaration_of(handler)
        header = RequestHeader(row.request.KEY, row.versions.high, 1, "test")
        forwarder = Forwarder(self, 30.0, ReadIndex(self, self.metadata, lambda: EPOCH).reach)
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.publish)
            await forwarder.forward_frame(b"", Call(header, connection()))
            seconds = trio.current_time() - began
            nursery.cancel_scope.cancel()
        return seconds


def each_of(handlers: Any) -> Any:
    return pytest.mark.parametrize("handler", handlers, ids=lambda handler: handler.__name__)


@each_of([handler for handler in FORWARDED_HANDLERS if handler not in READS])
async def test_answer_waits_until_image_has_change(handler, autojump_clock):
    assert await Leader(fetched(CHANGED + 1)).seconds_of(handler) == 0.5


@each_of(READS)
async def test_answer_to_read_does_not_wait(handler, autojump_clock):
    leader = Leader(fetched(CHANGED + 1))
    assert (await leader.seconds_of(handler), leader.fetches) == (0, [])


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (fetched(CHANGED + 1), 1.0),
        (fetched(CHANGED), 0),
        (fetched(-1), 0),
        (FetchResponse(error_code=ErrorCode.INVALID_REQUEST, responses=[]), 0),
        (KafkaError(ErrorCode.REQUEST_TIMED_OUT), 0),
    ],
    ids=["never seen", "seen", "unknown watermark", "refused", "no leader"],
)
async def test_late_broker_delays_answer_within_bound(answer, seconds, autojump_clock):
    leader = Leader(answer, is_seen=False)
    assert await leader.seconds_of(FORWARDED_HANDLERS[0]) == pytest.approx(seconds)


async def test_leader_is_asked_without_waiting(autojump_clock):
    leader = Leader(fetched(SEEN + 1))
    await leader.seconds_of(FORWARDED_HANDLERS[0])
    (request,) = leader.fetches
    (partition,) = request.topics[0].partitions
    assert (request.topics[0].topic_id, request.replica_state.replica_id) == (TOPIC_ID, -1)
    assert (request.max_wait_ms, partition.current_leader_epoch) == (0, EPOCH)
    assert (partition.fetch_offset, partition.last_fetched_epoch) == (SEEN + 1, SEEN_EPOCH)
    assert (request.max_bytes, partition.partition_max_bytes) == (1, 1)
