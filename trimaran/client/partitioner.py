"""Which partition a record goes to, as Apache Kafka's Java producer decides it (`BuiltInPartitioner`, KIP-794)."""

from __future__ import annotations

from collections.abc import Sequence

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit hash of Austin Appleby with Kafka's seed, unsigned (`Utils.murmur2`)."""
    found = (_SEED ^ len(data)) & _MASK
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        found = found * _MULTIPLIER & _MASK ^ word
    if rest := data[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * _MULTIPLIER & _MASK
    found = (found ^ found >> 13) * _MULTIPLIER & _MASK
    return found ^ found >> 15


def partition_of_key(key: bytes, count: int) -> int:
    """The same for every client that hashes as Java's does, while the topic has `count` partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % count


class StickyPartitions:
    """For records without a key: a batch goes to one partition, the next batch to the next.

    Only partitions with a leader take part, unless none has. Java chooses the next at random; in turn is as even.
    """

    def __init__(self, leaders: Sequence[int], first: int) -> None:
        """`leaders` by partition, -1 for none; `first`: any number, where to begin."""
        led = [index for index, leader in enumerate(leaders) if leader >= 0]
        self._partitions = led or list(range(len(leaders)))
        self._turn = first

    def next(self) -> int:
        """The partition of the next batch."""
        self._turn += 1
        return self._partitions[self._turn % len(self._partitions)]
