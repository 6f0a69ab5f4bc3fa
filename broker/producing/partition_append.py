"""The stage `resolve` of Produce: turns the request into a list of partitions, and a response for later stages."""

from __future__ import annotations

from collections.abc import Sequence

from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.broker.partitions.partition import Partition
from trimaran.broker.partitions.registry import Partitions
from trimaran.log.batches.batch import BatchView
from trimaran.log.validation.rejected_records import RejectedRecords
from trimaran.wire.buffers.outgoing import records_view
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NO_OFFSET, Offset, TopicPartition
from trimaran.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from trimaran.wire.transport.scheduling.effects import Handling

_NO_LEADER = LeaderIdAndEpoch()
_NO_RECORDS = memoryview(b"")


class PartitionAppend:
    """One partition's part of a Produce request on its way through the stages.

    `key` names the partition (topic "" if the request's id is unknown). `partition` is this broker's replica or None.
    `response` is the partition's part of the response. A `failed` part has its error code there and skips all further
    stages.

    A validated part has a `leader` to append to and `batches` (empty if a message set had no complete message). An
    appended part has the `required_offset` that the leader's high watermark must reach before acks=all may be answered,
    as in Kafka's `ProducePartitionStatus`. `verified_from` is the end of the log when verification by the transaction
    coordinator began; None if there was no verification, or if that does not matter.
    """

    __slots__ = (
        "batches",
        "failed",
        "key",
        "leader",
        "partition",
        "records",
        "required_offset",
        "response",
        "verified_from",
    )

    def __init__(
        self,
        key: TopicPartition,
        partition: Partition | None,
        records: memoryview,
        response: PartitionProduceResponse,
    ) -> None:
        self.key = key
        self.partition = partition
        self.records = records
        self.response = response
        self.leader: PartitionLeader | None = None
        self.batches: Sequence[BatchView] = ()
        self.required_offset: Offset | None = None
        self.verified_from: Offset | None = None
        self.failed = False

    def refuse(self, code: ErrorCode, message: str | None = None) -> None:
        """Sets the error of the response, which then has no offset."""
        self.failed = True
        self.response.error_code = code
        self.response.error_message = message
        self.response.base_offset = NO_OFFSET

    def fail(self, error: KafkaError) -> None:
        """Copies the code and the texts of `error` to the response, and clears its traceback.

        The frames of the traceback hold decompressed data (and, if a thread raised the error, the error itself): they
        would not be freed before the next garbage collection.
        """
        self.refuse(error.code, error.message)
        if isinstance(error, RejectedRecords):
            self.response.record_errors = [
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=why)
                for index, why in error.reasons.items()
            ]
        error.__context__ = error.__traceback__ = None

    def release(self) -> None:
        """Drops the records: a wait for replicas does not need them, and they keep the receive buffer alive."""
        self.records = _NO_RECORDS
        self.batches = ()


def resolve(
    request: ProduceRequest, partitions: Partitions
) -> Handling[tuple[ProduceResponse, list[PartitionAppend]]]:
    """Returns the response in the layout of the request, and the parts in the same order; a part with an unknown topic
    id has failed with UNKNOWN_TOPIC_ID.
    """
    parts: list[PartitionAppend] = []
    topics: list[TopicProduceResponse] = []
    for topic in request.topic_data:
        if topics:
            yield None
        name, held = partitions.named(topic.name, topic.topic_id)
        responses = []
        for data in topic.partition_data:
            index, records = data.index, data.records
            response = PartitionProduceResponse(
                index=index, base_offset=NO_OFFSET, current_leader=_NO_LEADER
            )
            responses.append(response)
            if type(records) is not memoryview:
                records = records_view(records)
            partition = held.get(index)
            key = partition.topic_partition if partition else TopicPartition(name or "", index)
            part = PartitionAppend(key, partition, records, response)
            parts.append(part)
            if name is None:
                part.fail(KafkaError(ErrorCode.UNKNOWN_TOPIC_ID))
        topics.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=responses
            )
        )
    return ProduceResponse(responses=topics), parts


def refusal(request: ProduceRequest, error: KafkaError) -> ProduceResponse:
    """Returns the response with the same error for every partition."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=data.index,
                        error_code=error.code,
                        error_message=error.message,
                        base_offset=NO_OFFSET,
                        current_leader=_NO_LEADER,
                    )
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )
