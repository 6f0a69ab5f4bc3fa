"""Stage 2 of Produce: who may not write to a topic learns nothing else of its partitions.

Source: `KafkaApis.handleProduceRequest`, which asks for WRITE on each topic before it looks whether there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.producing.partition_append import PartitionAppend
from wire.errors import ErrorCode, KafkaError

MayWrite = Callable[[str], bool]
"""Whether the client may write to the topic of that name."""


def everybody_may_write(_topic: str) -> bool:
    return True


def authorize(appends: Iterable[PartitionAppend], may_write: MayWrite) -> None:
    """TOPIC_AUTHORIZATION_FAILED for partitions of topics that the client may not write to."""
    for one in appends:
        if not one.failed and not may_write(one.topic):
            one.fail(KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
