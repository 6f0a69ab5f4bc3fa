"""The rows of a loaded log, many of which are offsets of the same group and topic."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from trimaran.broker.coordination.shard import LoadedRow
from trimaran.broker.groups.records import GroupRecordSerde
from trimaran.broker.groups.shard import GroupCoordinatorShard
from trimaran.wire.identity import Offset
from trimaran.wire.records.groups import (
    OffsetCommitKey,
    OffsetCommitValue,
    decode_offset_commit_values,
)

# The end of an OffsetCommitKey.
_PARTITION = struct.Struct(">i")


class LoadedRows:
    """Applies the rows of a loaded log to an empty shard, in order, except those of open transactions. This takes less
    than half as long as decoding and replaying each row.

    Nearly all rows of a large log are offsets, and most have the same group and topic as an earlier row: their keys
    only differ in the partition, the last field of a key. The resulting state is that of `decode` and `replay`, without
    creating a key and a record for each offset.
    """

    def __init__(self, serde: GroupRecordSerde, shard: GroupCoordinatorShard) -> None:
        self._serde = serde
        self._shard = shard
        # The offsets in the store of one group and topic, by the bytes of a key before the partition.
        self._known: dict[bytes, dict[int, OffsetCommitValue]] = {}
        # Consecutive rows of known groups and topics, each with the offsets of its group and topic, its key and value.
        self._rows: list[tuple[dict[int, OffsetCommitValue], bytes, bytes]] = []

    def take(self, rows: Iterable[LoadedRow]) -> None:
        """Applies rows without a transaction.

        Raises:
            RemoteProtocolError: a row is malformed, or of a version that this coordinator does not know.
        """
        known, size = self._known, _PARTITION.size
        for offset, key, value in rows:
            place = known.get(key[:-size])
            if place is None or value is None:
                self._store()
                self._replay(offset, key, value)
            else:
                self._rows.append((place, key, value))
        self._store()

    def _store(self) -> None:
        values = decode_offset_commit_values([value for _, _, value in self._rows])
        size, partition_of = _PARTITION.size, _PARTITION.unpack_from
        new = 0
        for (place, key, _), value in zip(self._rows, values, strict=True):
            partition = partition_of(key, len(key) - size)[0]
            before = place.get(partition)
            place[partition] = value
            new += before is None
            if value.metadata or before is not None:
                self._shard.store.note_metadata(before, value)
        self._shard.store.note_offsets(new)
        self._rows.clear()

    def _replay(self, offset: Offset, key: bytes, value: bytes | None) -> None:
        record = self._serde.decode(key, value)
        if record is None:
            return
        self._shard.replay(offset, record)
        if not isinstance(record.key, OffsetCommitKey):
            return
        if value is None:  # the store may have dropped an empty dictionary
            self._known.clear()
        else:
            of_group = self._shard.store.offsets[record.key.group]
            self._known[key[: -_PARTITION.size]] = of_group[record.key.topic]
