"""Log directories of brokers: their use, and the replicas in them (KIP-113, KIP-827)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from trimaran.client.offsets import ASIDE_SECONDS
from trimaran.errors.refused import Needs, check
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import BrokerId
from trimaran.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient


def log_dirs_of(
    client: BlockingClient,
    broker: BrokerId,
    topics: Sequence[str] | None = None,
    *,
    timeout: float | None = None,
) -> list[dict[str, Any]]:
    """Returns a row for each directory of a broker, with its replicas; None means all topics. Sizes are in bytes, -1 if
    the broker does not know one.
    """
    named = None
    if topics is not None:
        counts = {
            topic.name: [p.partition_index for p in topic.partitions]
            for topic in client.refresh(topics).topics
        }
        named = [DescribableLogDirTopic(topic=t, partitions=counts.get(t, [])) for t in topics]
    response = client.call(broker, DescribeLogDirsRequest(topics=named), timeout=timeout)
    check(response.error_code, None, f"broker {broker}", Needs("DESCRIBE"))
    return [
        {
            "broker": broker,
            "dir": result.log_dir,
            "error": ErrorCode.of(result.error_code).name if result.error_code else None,
            "error_code": result.error_code,
            "replicas": [
                {
                    "topic": topic.name,
                    "partition": p.partition_index,
                    "size": p.partition_size,
                    "offset_lag": p.offset_lag,
                    "is_future": p.is_future_key,
                }
                for topic in result.topics
                for p in topic.partitions
            ],
            "total": result.total_bytes,
            "usable": result.usable_bytes,
            "is_cordoned": result.is_cordoned,
        }
        for result in response.results
    ]


def replica_sizes(
    client: BlockingClient, topic: str, brokers: Iterable[BrokerId]
) -> dict[tuple[BrokerId, int], int]:
    """Returns the bytes by broker and partition. Brokers that do not respond within `ASIDE_SECONDS` are omitted:
    missing sizes are no reason to fail.
    """
    sizes = {}
    for broker in sorted(brokers):
        try:
            rows = log_dirs_of(client, broker, [topic], timeout=ASIDE_SECONDS)
        except (KafkaError, ConnectionLost, RequestTimedOut):
            continue
        for row in rows:
            for replica in row["replicas"]:
                if not replica["is_future"]:
                    sizes[broker, int(replica["partition"])] = int(replica["size"])
    return sizes
