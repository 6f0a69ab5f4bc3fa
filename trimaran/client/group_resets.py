"""The reset of the positions of a group: the positions before and after it, by partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from trimaran.client.changes import within_log
from trimaran.wire.identity import Offset, TopicPartition

if TYPE_CHECKING:
    from trimaran.client.group_kinds import GroupRequests
    from trimaran.client.positions import Position
    from trimaran.wire.blocking import BlockingClient


class OffsetReset(NamedTuple):
    """The positions of a group before and after a reset; `changed` are those to set."""

    before: Mapping[TopicPartition, Offset]
    after: Mapping[TopicPartition, Offset]
    changed: Mapping[TopicPartition, Offset]

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed": _known(self.before.get(partition)),
                "new": offset,
            }
            for partition, offset in self.after.items()
        ]


def planned_reset(
    client: BlockingClient,
    kind: GroupRequests,
    before: Mapping[TopicPartition, Offset],
    wanted: Iterable[TopicPartition],
    position: Position,
) -> OffsetReset:
    """Returns the reset of the wanted partitions to a position. Nothing is changed. Raises KafkaError."""
    after = {
        partition: within_log(client, partition, position.offset_in(client, partition))
        for partition in wanted
    }
    changed = {
        partition: offset
        for partition, offset in after.items()
        if kind.has_progress_beyond or before.get(partition) != offset
    }
    return OffsetReset(before, after, changed)


def _known(offset: Offset | None) -> Offset | None:
    """Returns None for `NO_OFFSET`, the position in a partition of which a share group has read nothing yet."""
    return None if offset is None or offset < 0 else offset
