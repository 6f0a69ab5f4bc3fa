"""The table of the kinds of groups: one line per kind. The shard, the store and the serde get the kinds from this table
only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trimaran.broker.groups.classic import kind as classic
from trimaran.broker.groups.consumer import kind as consumer
from trimaran.broker.groups.kinds import GroupKind
from trimaran.broker.groups.records import OFFSET_VALUE_VERSION, GroupRecordSerde
from trimaran.broker.groups.share import kind as share
from trimaran.broker.groups.streams import kind as streams

# The first kind also has unknown groups and groups that only have offsets. A kind may use the kinds above it.
KINDS: tuple[GroupKind[Any], ...] = (
    classic.KIND,
    consumer.KIND,
    share.KIND,
    streams.KIND,
)


def serde_of(
    kinds: Iterable[GroupKind[Any]] = KINDS, offset_version: int = OFFSET_VALUE_VERSION
) -> GroupRecordSerde:
    """Returns the serde of all types of records that these kinds declare."""
    return GroupRecordSerde((type_ for kind in kinds for type_ in kind.records), offset_version)
