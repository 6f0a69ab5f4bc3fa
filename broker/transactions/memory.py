"""A bound for the approximate memory of a broker's transactional ids.

Each shard counts its ids and the partitions of open transactions. If there is no room, new ids and more partitions are
refused; loaded ones are counted but never refused. Kafka has no such bound.
"""

from __future__ import annotations

from trimaran.broker.transactions.transaction import Transaction
from trimaran.node.text.memory import text_bytes

# The bound for all ids of a broker: enough for 500,000 ids of the usual length; the broker keeps each for a week.
TRANSACTIONS_BYTES_MAX = 256 << 20

# The cost of an id without its characters, and of a partition in a transaction, including its copy of the topic's name.
ID_BYTES = 400
PARTITION_BYTES = 400


def held_bytes(transactional_id: str, transaction: Transaction | None) -> int:
    """Returns the approximate size of an id; its name counts twice, since an open transaction holds a second copy."""
    if transaction is None:
        return 0
    return (
        ID_BYTES + 2 * text_bytes(transactional_id) + PARTITION_BYTES * len(transaction.partitions)
    )
