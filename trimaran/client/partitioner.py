"""Chooses the partition of a record like Apache Kafka's Java producer (`BuiltInPartitioner`, KIP-794)."""

from __future__ import annotations

from collections.abc import Sequence

from trimaran.wire.identity import BrokerId

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Returns the 32-bit MurmurHash2 with Kafka's seed, unsigned (`Utils.murmur2`)."""
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
    """Returns the partition of a key, the same as for every client that hashes like the Java client, while the topic
    has `count` partitions.
    """
    return (murmur2(key) & 0x7FFFFFFF) % count


class StickyPartitions:
    """Chooses partitions for records without a key: one for a batch, the next one for the next batch.

    Only partitions with a leader are used, unless no partition has one. Java chooses the next partition at random; a
    fixed order distributes batches as evenly.
    """

    def __init__(self, leaders: Sequence[BrokerId], first: int) -> None:
        """`leaders` by partition, -1 for none; `first` is any number, which chooses the first partition."""
        led = [index for index, leader in enumerate(leaders) if leader >= 0]
        self._partitions = led or list(range(len(leaders)))
        self._next = first

    def next(self) -> int:
        """Returns the partition of the next batch."""
        self._next += 1
        return self._partitions[self._next % len(self._partitions)]
