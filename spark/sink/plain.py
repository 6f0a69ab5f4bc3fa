"""Writes of tasks without transactions. Each task has a producer, which is idempotent unless acks=1: repeated requests
write no duplicates. A repeated task writes its rows again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from trimaran.log.batches.rows import BatchIdentity
from trimaran.spark.data_source.write_failed import WriteFailed
from trimaran.spark.sink.delivery import BatchDelivery
from trimaran.spark.sink.options import SinkOptions
from trimaran.spark.sink.record_sink import RecordSink
from trimaran.spark.sink.topics import WrittenTopics
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.init_producer_id import InitProducerIdRequest

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient


def write_plain(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> int:
    """Writes all rows, and returns their count when all are acknowledged. Raises WriteFailed, or DataUnreadable if the
    cluster cannot be reached.
    """
    settings = options.producer
    with options.cluster.client() as client:
        topics = WrittenTopics(client, options.creation, settings.block_seconds)
        delivery = BatchDelivery(options.cluster, settings, None)
        try:
            sink = None
            for batch in batches:
                if sink is None:
                    sink = RecordSink(options, topics, delivery, _producing(client, options))
                sink.write(batch)
            if sink is None:
                return 0
            sink.flush()
            return sink.count
        finally:
            delivery.close()


def _producing(client: BlockingClient, options: SinkOptions) -> BatchIdentity:
    settings = options.producer
    plain = BatchIdentity(settings.compression, settings.compression_level)
    if not settings.is_idempotent:
        return plain
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
    response = client.call(None, request)
    if response.error_code:
        raise WriteFailed(
            f"no producer id: {ErrorCode.of(response.error_code).name}; kafka.acks=1 writes without one"
        )
    return plain._replace(producer_id=response.producer_id, producer_epoch=response.producer_epoch)
