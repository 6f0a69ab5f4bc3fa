"""The epochs that a share coordinator has promised to enforce, at the moment of each decision (Q8)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from trimaran.broker.share_state.records import ShareRecord, UpdateRecord
from trimaran.broker.share_state.states import ShareSummary
from trimaran.wire.identity import SharePartitionKey

Epochs = tuple[int, int]
"""A state epoch, and a leader epoch."""


class Fences:
    """The highest epochs that each shard has stored, or has returned without storing them."""

    def __init__(self, require: Callable[..., None]) -> None:
        self._require = require
        self._told: WeakKeyDictionary[Any, defaultdict[SharePartitionKey, Epochs]] = (
            WeakKeyDictionary()
        )

    def replays(self, shard: Any, record: ShareRecord) -> None:
        """Notes a record in the log of a shard."""
        if isinstance(record, UpdateRecord):
            self._tells(shard, record.key, 0, record.leader_epoch)
        elif record.state is None:
            self._of(shard).pop(record.key, None)
        else:
            self._tells(shard, record.key, record.state.state_epoch, record.state.leader_epoch)

    def reads(
        self, shard: Any, key: SharePartitionKey, leader_epoch: int, records: Sequence[ShareRecord]
    ) -> None:
        """Notes a read: a read without records fences earlier leaders from its response on. The records of a read do
        so when they are replayed, since their write may fail.
        """
        if not records:
            self._tells(shard, key, 0, leader_epoch)

    def writes(self, shard: Any, key: SharePartitionKey, summary: ShareSummary) -> None:
        """Checks Q8: a shard accepts no write of an earlier state, or of an earlier leader."""
        state_epoch, leader_epoch = self._of(shard)[key]
        self._require(
            summary.state_epoch >= state_epoch and summary.leader_epoch >= leader_epoch,
            *("Q8", key, "is written with", summary, "after", state_epoch, leader_epoch),
        )

    def _tells(
        self, shard: Any, key: SharePartitionKey, state_epoch: int, leader_epoch: int
    ) -> None:
        told = self._of(shard)
        told[key] = max(told[key][0], state_epoch), max(told[key][1], leader_epoch)

    def _of(self, shard: Any) -> defaultdict[SharePartitionKey, Epochs]:
        return self._told.setdefault(shard, defaultdict(lambda: (0, 0)))
