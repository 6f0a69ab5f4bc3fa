"""Opens the logs that a request names before it is handled, with a yield after each: opening a thousand logs in one
step would block the event loop for a second.

A partition's log is opened on the first use of its leader, which takes 0.1 to 2 ms (for a directory listing, reading
some files, and the files of a new log). After a crash, a thread also checks the log above its recovery point, whatever
its size, and rebuilds missing index files.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.broker.partitions.partition import Partition
from trimaran.broker.partitions.registry import Partitions
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import BrokerId, TopicIdPartition, TopicPartition
from trimaran.wire.transport.scheduling.effects import Blocking, Handling

NO_FOLLOWER = BrokerId(-1)


def opening(
    partitions: Partitions,
    keys: Iterable[TopicPartition | TopicIdPartition],
    *,
    for_writing: bool = False,
    follower_id: BrokerId = NO_FOLLOWER,
) -> Handling[None]:
    """Opens the logs of those partitions in `keys` that this broker leads, before a handler reads from them; with
    `for_writing` also loads their producer state. Skips logs that the follower `follower_id` does not need. Also skips
    logs that cannot be opened: their leader raises the error later.
    """
    for topic, index in keys:
        names = (topic, NIL_UUID) if isinstance(topic, str) else ("", topic)
        _, held = partitions.named(*names)
        partition = held.get(index)
        if partition is not None and _must_open(partition, for_writing, follower_id):
            with suppress(KafkaError):
                yield from opened_leader(partition)
        yield None


def _must_open(partition: Partition, for_writing: bool, follower_id: BrokerId) -> bool:
    leader = partition.leader_or_none
    if leader is not None:
        return for_writing and not leader.log.knows_producers
    return partition.leads and not partition.is_untouched_for(follower_id)


def opened_leader(partition: Partition) -> Handling[PartitionLeader]:
    """Returns the leader of `partition`, with an open log and its producer state. Raises as `open_leader` does."""
    if partition.leads and not partition.deleted and partition.must_check:
        with suppress(KafkaError):  # `open_leader` raises the error
            yield Blocking(partition.check)
    return partition.open_leader()
