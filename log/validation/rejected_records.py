"""The records of a batch that a topic does not accept (KIP-467). Source: Kafka's `LogValidator.processRecordErrors`."""

from __future__ import annotations

from trimaran.log.batches.batch import BatchView, Buffer
from trimaran.log.batches.columns import decode_first
from trimaran.wire.errors import ErrorCode, KafkaError

# The maximum number of records reported. Producers put fewer into a batch (librdkafka 10,000 by default); each costs
# 100 bytes of the response.
RECORDS_NAMED_MAX = 10_000
WITHOUT_KEY = "a record of a compacted topic needs a key"


class RejectedRecords(KafkaError):
    """A batch is refused because of some records; `reasons` gives the reason by index, among the first
    `RECORDS_NAMED_MAX` records.
    """

    def __init__(self, code: ErrorCode, message: str, reasons: dict[int, str]) -> None:
        super().__init__(code, message)
        self.reasons = reasons


def find_rejected(
    batch: BatchView, body: Buffer, *, requires_keys: bool, least_ms: int, most_ms: int
) -> RejectedRecords | None:
    """Checks the first `RECORDS_NAMED_MAX` records; returns None if all of these are accepted.

    The code is INVALID_TIMESTAMP if any record is refused for its timestamp, otherwise INVALID_RECORD. `body` is the
    batch's decompressed body.

    Raises:
        MalformedRecords: the records contradict the header.
    """
    columns = decode_first(batch, body, RECORDS_NAMED_MAX)
    code, reasons = ErrorCode.INVALID_RECORD, {}
    for index, (key_size, timestamp) in enumerate(
        zip(columns.key_size, columns.timestamp_ms, strict=True)
    ):
        if requires_keys and key_size < 0:
            reasons[index] = WITHOUT_KEY
        elif timestamp != -1 and not least_ms <= timestamp <= most_ms:
            reasons[index] = f"timestamp {timestamp} is outside [{least_ms}, {most_ms}]"
            code = ErrorCode.INVALID_TIMESTAMP
    if not reasons:
        return None
    first = next(iter(reasons))
    message = (
        f"{len(reasons)} of {batch.count} records are refused; record {first}: {reasons[first]}"
    )
    return RejectedRecords(code, message, reasons)
