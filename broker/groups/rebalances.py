"""The records that rebalance a group: those that give it a new epoch or, if it is classic, a new generation.

Source: the places where Kafka's `GroupMetadataManager` records the sensors of rebalances. Without members, a classic
group has no rebalance.
"""

from __future__ import annotations

from typing import Any

from trimaran.broker.groups.kinds import GroupKind
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.store import GroupStore
from trimaran.wire.identity import GroupEpoch


def is_rebalance(store: GroupStore, record: GroupRecord, kind: GroupKind[Any]) -> bool:
    """Whether the record, which is not yet applied, gives a group of this kind another epoch."""
    value, known = record.value, kind.epoch_record
    if known is None or value is None or not getattr(value, "members", True):
        return False
    before = store.of(kind.name).get(getattr(record.key, known.group_id))
    epoch: GroupEpoch = getattr(value, known.epoch)
    return before is None or epoch != getattr(before, known.epoch)
