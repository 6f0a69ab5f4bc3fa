"""Reads records of a partition for the copies in a dead-letter queue.

Source: Kafka's `ShareGroupDLQRecordFetcher`. As there, batches larger than the limit when decompressed are not copied;
intentional difference: nor are messages of v0 and v1.
"""

from __future__ import annotations

from functools import partial

from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.broker.sharing.dead_letters import Copies, ReadRecords
from trimaran.log.batches.batch import MAGIC, iter_batches
from trimaran.log.batches.records import iter_records
from trimaran.log.segments.slices import LogSlice
from trimaran.wire.errors import KafkaError, RemoteProtocolError
from trimaran.wire.identity import Offset
from trimaran.wire.transport.scheduling.compute_thread import run_apart

# The bytes of one read from the log, unless a single batch is larger; as in Kafka.
READ_BYTES_MAX = 1 << 20

_UNREADABLE = (KafkaError, OSError, RemoteProtocolError, ValueError)


async def copies_of(leader: PartitionLeader, read: ReadRecords) -> Copies:
    """Returns committed records, as far as keys and values have no more than `read.bytes_max` bytes. Records that are
    compacted away, too large, damaged or not committed are missing.
    """
    found: dict[Offset, tuple[bytes | None, bytes | None]] = {}
    offset, left = read.first, read.bytes_max
    while offset <= read.last:
        try:
            piece = None if leader.ended else _piece(leader, offset)
        except KafkaError:
            piece = None
        if piece is None:
            break
        part = read._replace(first=offset, bytes_max=left)
        records, offset, room = await run_apart(partial(_in_piece, piece, part))
        found |= records
        if room is None:
            return Copies(found, offset)
        left = room
    return Copies(found, Offset(read.last + 1))


def _piece(leader: PartitionLeader, offset: Offset) -> LogSlice | None:
    begin = max(offset, leader.log.log_start_offset)
    return leader.log.read(begin, READ_BYTES_MAX, upto_offset=leader.committed_end, min_one=True)


def _in_piece(
    piece: LogSlice, read: ReadRecords
) -> tuple[dict[Offset, tuple[bytes | None, bytes | None]], Offset, int | None]:
    """Returns the records in a piece of the log, the offset to read next, and the bytes that are left; None if the
    record at that offset does not fit.
    """
    found: dict[Offset, tuple[bytes | None, bytes | None]] = {}
    left = read.bytes_max
    # The end of a piece may be far beyond its last batch, so it is used only if no batch can be read.
    end = piece.end_offset
    try:
        for batch in iter_batches(memoryview(piece.read()), allow_old=True):
            end = Offset(max(read.first, batch.last_offset) + 1)
            if batch.magic < MAGIC or batch.is_control or batch.base_offset > read.last:
                continue
            try:
                for record, _ in iter_records(batch, read.bytes_of_one, headers_max=0):
                    if not read.first <= record.offset <= read.last:
                        continue
                    size = len(record.key or b"") + len(record.value or b"")
                    if size > read.bytes_of_one:
                        continue
                    if size > left:
                        return found, record.offset, None
                    found[record.offset] = record.key, record.value
                    left -= size
            except _UNREADABLE:
                continue
    except _UNREADABLE:
        pass  # the next read begins with the damaged batch
    return found, end, left
