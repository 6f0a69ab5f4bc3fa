"""The table of the kinds of groups: one line a kind. The shard, the store and the serde know them from here alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trimaran.broker.groups.classic import kind as classic
from trimaran.broker.groups.consumer import kind as consumer
from trimaran.broker.groups.kinds import GroupKind
from trimaran.broker.groups.records import OFFSET_VALUE_VERSION, GroupRecordSerde

# The first is that of groups that are not known, or by their offsets alone. A kind may use the groups of those above.
KINDS: tuple[GroupKind[Any], ...] = (
    classic.KIND,
    consumer.KIND,
)


def serde_of(
    kinds: Iterable[GroupKind[Any]] = KINDS, offset_version: int = OFFSET_VALUE_VERSION
) -> GroupRecordSerde:
    """Returns the serde of all types of records that these kinds declare."""
    return GroupRecordSerde((type_ for kind in kinds for type_ in kind.records), offset_version)
