"""A bound for the approximate memory of a broker's transactional ids.

Each shard counts its ids and the partitions of open transactions. Without room, new ids and more partitions are
refused; loaded ones count but are never refused. Kafka has no such bound.
"""

from __future__ import annotations

from weakref import WeakSet

from trimaran.broker.transactions.transaction import Transaction
from trimaran.node.text.memory import text_bytes

# The bound for all ids of a broker: enough for 500,000 ids of the usual length; the broker keeps each for a week.
TRANSACTIONS_BYTES_MAX = 256 << 20

# The cost of an id without its characters, and of a partition in a transaction, including its copy of the topic's name.
ID_BYTES = 400
PARTITION_BYTES = 400


class IdAccount:
    """The count of the bytes that one shard holds."""

    def __init__(self, memory: TransactionMemory | None = None) -> None:
        self._memory = TransactionMemory() if memory is None else memory
        self._memory.accounts.add(self)
        self.bytes = 0

    def fits(self, more: int) -> bool:
        """Returns whether the broker has room for `more` bytes; a negative number always fits."""
        return more <= 0 or self._memory.fits(more)

    def close(self) -> None:
        """Removes the bytes of the shard, which has been closed."""
        self._memory.accounts.discard(self)


class TransactionMemory:
    """The memory of all shards of a broker."""

    def __init__(self) -> None:
        # Weak references: a shard that failed to load leaves no account behind.
        self.accounts = WeakSet[IdAccount]()

    def fits(self, more: int) -> bool:
        """Returns whether the broker has room for `more` bytes."""
        return sum(account.bytes for account in self.accounts) + more <= TRANSACTIONS_BYTES_MAX


def held_bytes(transactional_id: str, transaction: Transaction | None) -> int:
    """Returns the approximate size of an id; its name counts twice, since an open transaction holds a second copy."""
    if transaction is None:
        return 0
    return (
        ID_BYTES + 2 * text_bytes(transactional_id) + PARTITION_BYTES * len(transaction.partitions)
    )
