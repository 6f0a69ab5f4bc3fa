"""Stage 4 of Produce: whether a transactional batch is of a transaction that is under way (KIP-890).

Transactions are not served: every transactional batch is refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.producing.partition_append import PartitionAppend
from wire.errors import ErrorCode, KafkaError

NOT_SERVED = KafkaError(ErrorCode.INVALID_TXN_STATE, "transactions are not served")


def verify(appends: Iterable[PartitionAppend]) -> None:
    """INVALID_TXN_STATE for what is transactional."""
    for one in appends:
        if one.batches and one.batches[0].is_transactional and not one.failed:
            one.fail(NOT_SERVED)
