"""One partition's part of a Produce request on its way through the stages."""

from __future__ import annotations

from collections.abc import Sequence

from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.broker.partitions.partition import Partition
from trimaran.log.batches.batch import BatchView
from trimaran.log.validation.rejected_records import RejectedRecords
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.produce import BatchIndexAndErrorMessage, PartitionProduceResponse

NO_OFFSET = -1
_NO_RECORDS = memoryview(b"")


class PartitionAppend:
    """`key` names the partition (topic "" if the request's id is unknown), `partition` is the replica here, None if
    there is none; `response` is the partition's part of the answer, which stages fill in.

    Validated, it has a `leader` to append to and `batches` (none: a message set had no whole message); appended, the
    `required_offset` that the leader's high watermark must reach before acks=all may be answered, as in Kafka's
    `ProducePartitionStatus`. `verified_from` is the end of the log at the
    time when the coordinator of the transaction was asked, or -1.
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
        self.required_offset = -1
        self.verified_from = -1
        # It is answered with an error, and goes through no further stage.
        self.failed = False

    def refuse(self, code: ErrorCode, message: str | None = None) -> None:
        """Answers an error, and no offset."""
        self.failed = True
        self.response.error_code = code
        self.response.error_message = message
        self.response.base_offset = NO_OFFSET

    def fail(self, error: KafkaError) -> None:
        """Takes over what `error` says, and its frames from it.

        They hold what was decompressed, and where a thread raised it also the error: nothing would be freed before a
        collection.
        """
        self.refuse(error.code, error.message)
        if isinstance(error, RejectedRecords):
            self.response.record_errors = [
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=why)
                for index, why in error.reasons.items()
            ]
        error.__context__ = error.__traceback__ = None

    def take_records(self) -> memoryview:
        """The records, which are kept here no longer."""
        records, self.records = self.records, _NO_RECORDS
        return records

    def detach(self) -> None:
        """Copies the records out of the receive buffer, which a request that waits would keep."""
        self.records = memoryview(bytearray(self.records))
        self.batches = ()

    def release(self) -> None:
        """Lets go of the records: what waits for replicas needs them no more."""
        self.records = _NO_RECORDS
        self.batches = ()
