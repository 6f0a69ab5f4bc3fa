"""The share coordinator of one broker: a shard for each partition of `__share_group_state` that it leads.

Handlers call it with the fields of requests; it finds the shard of a share partition, or raises NOT_COORDINATOR if
another broker leads, or COORDINATOR_LOAD_IN_PROGRESS until the log has been read. Source: Kafka's
`ShareCoordinatorService`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar
from weakref import WeakSet

import trio

from trimaran.broker import events
from trimaran.broker.coordination.memory import Account
from trimaran.broker.coordination.ports import Metadata
from trimaran.broker.coordination.runtime import CoordinatorRuntime, partition_for
from trimaran.broker.coordination.shard import CoordinatorSpec
from trimaran.broker.coordination.shard_epoch import ShardEpoch, ShardState
from trimaran.broker.coordination.timers import Instant
from trimaran.broker.metadata.internal_topics import SHARE_GROUP_STATE
from trimaran.broker.share_state.keys import key_text
from trimaran.broker.share_state.limits import ShareLimits
from trimaran.broker.share_state.records import ShareRecord, ShareRecordSerde
from trimaran.broker.share_state.shard import ShareCoordinatorShard
from trimaran.broker.share_state.states import ShareState, ShareSummary, StateBatch
from trimaran.broker.share_state.turns import Turns
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import Steps
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.quorum.metadata.loader import Manifest
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import LeaderEpoch, Offset, SharePartitionKey, StateEpoch
from trimaran.wire.transport.metrics.time_histogram import TimeHistogram

log = logging.getLogger(__name__)

T = TypeVar("T")

_Epoch = ShardEpoch[ShareCoordinatorShard, ShareRecord]
_Decide = Callable[[ShareCoordinatorShard, Instant], Result[ShareRecord, T]]


class ShareCoordinator:
    """The interface for handlers. `runtime` has the shards, listens to the leadership of the topic, and must be
    running. Methods raise KafkaError with the code for the requesting broker. Callers take a turn of `turns` for each
    decision about a share partition, and record in `write_times` how long a write took until it was committed.
    """

    def __init__(self, limits: ShareLimits, metadata: Metadata) -> None:
        self.limits = limits
        self._metadata = metadata
        self.turns = Turns()
        self.writes = 0
        self.write_times = TimeHistogram()
        self.accounts = WeakSet[Account]()
        self.runtime = CoordinatorRuntime(
            CoordinatorSpec(
                topic=SHARE_GROUP_STATE,
                make_shard=lambda: ShareCoordinatorShard(
                    limits, self._partitions_of, self.accounts
                ),
                serde=ShareRecordSerde(),
                commit_timeout_ms=limits.commit_timeout_ms,
                load_buffer_bytes=limits.load_buffer_bytes,
                compacted=False,
                follow_up=_prune,
            )
        )

    def _partitions_of(self, topic_id: bytes) -> int:
        topic = self._metadata.image.topics.by_id.get(topic_id)
        return 0 if topic is None else len(topic.partitions)

    # -- finding

    def partition_count(self) -> int:
        """Returns the number of partitions that the topic has, or would be created with."""
        topic = self._metadata.image.topics.by_name.get(SHARE_GROUP_STATE)
        return len(topic.partitions) if topic is not None else self.limits.partition_count

    def partition_of(self, key: SharePartitionKey) -> int:
        return partition_for(key_text(key), self.partition_count())

    def epoch_of(self, key: SharePartitionKey) -> _Epoch:
        """Returns the epoch of the key's shard, which may still be loading. Raises KafkaError: NOT_COORDINATOR."""
        return self.runtime.epoch_of(self.partition_of(key))

    async def wait_loaded(self, key: SharePartitionKey, seconds: float) -> None:
        """Waits until the key's shard is loaded or its epoch has ended, at most for `seconds`. Raises KafkaError as
        `epoch_of` does.
        """
        epoch = self.epoch_of(key)
        if epoch.state is ShardState.LOADING:
            with trio.move_on_after(seconds):
                await epoch.wait_loaded()

    # -- decisions: made before the method or its last step returns, committed later. See the shard for their errors.

    def initialize(
        self, key: SharePartitionKey, state_epoch: StateEpoch, start_offset: Offset | None
    ) -> PendingResponse[None]:
        """Stores a state without batches."""
        return self._decide(
            key, lambda shard, at: shard.initialize(key, state_epoch, start_offset, at)
        )

    def read(
        self, key: SharePartitionKey, leader_epoch: LeaderEpoch
    ) -> PendingResponse[ShareState]:
        """Returns the state; from now on, writes of earlier leaders are refused."""
        return self._decide(key, lambda shard, at: shard.read(key, leader_epoch, at))

    def summary(self, key: SharePartitionKey) -> PendingResponse[ShareSummary]:
        """Returns the position."""
        return self._decide(key, lambda shard, _at: shard.summary(key))

    def write(
        self, key: SharePartitionKey, summary: ShareSummary, batches: Sequence[StateBatch]
    ) -> Steps[PendingResponse[None]]:
        """Stores a position, and the state of these batches: decided in steps."""
        self.writes += 1
        return self.epoch_of(key).deciding(lambda shard, at: shard.write(key, summary, batches, at))

    def delete(self, key: SharePartitionKey) -> PendingResponse[None]:
        """Deletes the state, if there is one."""
        return self._decide(key, lambda shard, _at: shard.delete(key))

    def _decide(self, key: SharePartitionKey, act: _Decide[T]) -> PendingResponse[T]:
        return self.epoch_of(key).decide(act)

    # -- metadata

    def publish(self, delta: MetadataDelta, _image: MetadataImage, _manifest: Manifest) -> None:
        """Removes the states of deleted topics (a `Publisher` of the metadata loader)."""
        if delta.topics.deleted:
            topic_ids = [topic.id for topic in delta.topics.deleted.values()]
            for epoch in self.runtime.epochs:
                epoch.step_when_loaded(lambda shard, at: shard.topics_deleted(topic_ids, at))


async def _prune(epoch: _Epoch, offset_text: str) -> None:
    """Deletes the records before an offset that the shard has named in a follow-up: all records that make them
    redundant are committed. After a failure, the shard names the offset again.
    """
    offset = Offset(int(offset_text))
    try:
        epoch.delete_records_before(offset)
        epoch.active().pruned(offset)
    except KafkaError as error:
        events.SHARE_LOG_NOT_PRUNED.log(log, shard=epoch, offset=offset, error=error.code.name)
