"""How much memory the transactional ids of a broker take, about, so that there is an end to it.

Each shard counts its ids and the partitions of transactions that have not ended. An id that would be new is refused
when there is no room, and so are more partitions; what is loaded counts and is never refused. Kafka has no such bound.
"""

from __future__ import annotations

from weakref import WeakSet

from trimaran.broker.transactions.transaction import Transaction
from trimaran.node.text.memory import text_bytes

# The bound for all ids of a broker. 500,000 of usual length take less; the broker keeps each for a week.
TRANSACTIONS_BYTES_MAX = 256 << 20

# The cost of an id without its characters, and of a partition in a transaction, with its copy of the topic's name.
ID_BYTES = 400
PARTITION_BYTES = 400


class IdAccount:
    """Counts the bytes that one shard holds."""

    def __init__(self, memory: TransactionMemory | None = None) -> None:
        self._memory = TransactionMemory() if memory is None else memory
        self._memory.accounts.add(self)
        self.bytes = 0

    def fits(self, more: int) -> bool:
        """Returns whether the broker has room for `more` bytes; a negative number always fits."""
        return more <= 0 or self._memory.fits(more)

    def close(self) -> None:
        """The shard is gone."""
        self._memory.accounts.discard(self)


class TransactionMemory:
    """All shards of a broker."""

    def __init__(self) -> None:
        # A shard that could not be loaded leaves none behind.
        self.accounts = WeakSet[IdAccount]()

    def fits(self, more: int) -> bool:
        """Returns whether the broker has room for `more` bytes."""
        return sum(account.bytes for account in self.accounts) + more <= TRANSACTIONS_BYTES_MAX


def held_bytes(transactional_id: str, transaction: Transaction | None) -> int:
    """Returns what an id takes, about: while a transaction is open a second copy of it says so."""
    if transaction is None:
        return 0
    return (
        ID_BYTES + 2 * text_bytes(transactional_id) + PARTITION_BYTES * len(transaction.partitions)
    )
