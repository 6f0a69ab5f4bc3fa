"""Keys of the share coordinator and its topic.

Source: Kafka's `ShareCoordinatorConfig`.
"""

from __future__ import annotations

from trimaran.node.config.key_rows import rows

_ACTING = rows(
    """
share.coordinator.cold.partition.snapshot.interval.ms | int 1.. | 300000 | internal
    Time after which an idle share partition is written as a snapshot.
share.coordinator.load.buffer.size | int 1.. | 5242880 | high
    Bytes read at a time while a share coordinator loads its partitions.
share.coordinator.snapshot.update.records.per.snapshot | int 0..500 | 500 | medium
    Updates that the share coordinator writes between two snapshots.
share.coordinator.state.topic.min.isr | short 1.. | 2 | high
    min.insync.replicas of the topic __share_group_state.
share.coordinator.state.topic.num.partitions | int 1.. | 50 | high
    Partitions of the topic __share_group_state.
share.coordinator.state.topic.prune.interval.ms | int 1.. | 300000 | internal
    Time between two deletions of old share group state.
share.coordinator.state.topic.replication.factor | short 1.. | 3 | high
    Replicas of the topic __share_group_state.
share.coordinator.state.topic.segment.bytes | int 1.. | 104857600 | high
    Segment size of the topic __share_group_state.
share.coordinator.write.timeout.ms | int 1.. | 5000 | high
    Time a write of the share coordinator may take.
"""
)
_WITHOUT_EFFECT = rows(
    """
share.coordinator.append.linger.ms | int -1.. | -1 | medium
    Time the share coordinator waits for more records before it writes; -1 adapts to the load.
share.coordinator.cached.buffer.max.bytes | int 524288.. | 1048588 | medium dynamic
    Largest write buffer that the share coordinator keeps.
share.coordinator.state.topic.compression.codec | int | 0 | high
    Compression of the topic __share_group_state.
share.coordinator.threads | int 1.. | 1 | medium
    Threads of the share coordinator.
""",
    no_effect="one event loop runs all states of share groups, and their records are not compressed",
)
SHARE_COORDINATOR = (*_ACTING, *_WITHOUT_EFFECT)
