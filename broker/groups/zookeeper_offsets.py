"""Where offsets of version 0 are kept: ZooKeeper, as the broker sees it.

Consumers of Kafka 0.8 commit with OffsetCommit v0 and read with OffsetFetch v0, at any broker. Their commits are in
`/consumers/GROUP/offsets/TOPIC/PARTITION`, which they may read and write themselves. A broker receives an object
for that; it knows nothing of ZooKeeper. Source: `KafkaApis` of Kafka 2.8, with `KafkaZkClient`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition

# Clients of that time ask again for this one, both after a commit and after a fetch; not for COORDINATOR_NOT_AVAILABLE.
UNAVAILABLE = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class ZooKeeperOffsets(Protocol):
    """Reads and writes the offsets of old consumers. Both methods return soon, also when ZooKeeper does not."""

    async def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Stores all of them.

        Raises:
            KafkaError: INVALID_GROUP_ID: no znode can have this name. GROUP_AUTHORIZATION_FAILED: ZooKeeper does not
                let us. `UNAVAILABLE`: some may be stored, or all; commit again.
        """

    async def fetch(
        self, group: str, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, int | None]:
        """Those that there are; None for one that is not a number.

        Raises:
            KafkaError: as `commit` does.
        """
