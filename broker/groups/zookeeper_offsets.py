"""The broker's interface to the offsets of version 0, which are stored in ZooKeeper.

Consumers of Kafka 0.8 commit with OffsetCommit v0 and read with OffsetFetch v0, from any broker. Their commits are in
`/consumers/GROUP/offsets/TOPIC/PARTITION`, which consumers may also access themselves. A broker receives an object with
this interface; it has no ZooKeeper code. Source: `KafkaApis` of Kafka 2.8, with `KafkaZkClient`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import Offset, TopicPartition

# Consumers of Kafka 0.8 retry this code after commits and fetches; they do not retry COORDINATOR_NOT_AVAILABLE.
UNAVAILABLE = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class ZooKeeperOffsets(Protocol):
    """Reads and writes the offsets of old consumers. Both methods return soon, even if ZooKeeper does not respond."""

    async def commit(self, group: str, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Stores all offsets.

        Raises:
            KafkaError: INVALID_GROUP_ID if no znode can have this name; GROUP_AUTHORIZATION_FAILED if ZooKeeper denies
                access; `UNAVAILABLE` if some or all offsets may not have been stored: the client must retry.
        """

    async def fetch(
        self, group: str, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Offset | None]:
        """Returns the stored offsets; None for a value that is not a number.

        Raises:
            KafkaError: the codes of `commit`.
        """
