"""Checks records on the leader's own disk that a follower fetches again and again: they may be damaged.

A read by `sendfile` checks no records: the follower checks records when it appends them, and fetches invalid
ones again. If the bytes on this disk are damaged, this replica is taken out of service, and another in-sync replica
leads (P17); if there is none, this replica continues to lead with the undamaged records. Kafka has no such check: its
followers repeat the fetch forever.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from trimaran.broker import events
from trimaran.broker.partitions.registry import Partitions
from trimaran.broker.partitions.replica import why_incomplete
from trimaran.broker.partitions.suspects import Suspect
from trimaran.log.batches.batch import check_crc, iter_batches
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.log.segments.slices import LogSlice
from trimaran.node.runtime.pacing import run_paced
from trimaran.node.runtime.threads import run_blocking
from trimaran.wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.identity import LeaderEpoch, Offset

log = logging.getLogger(__name__)

_DAMAGE = frozenset({ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR})


async def check_suspects(partitions: Partitions) -> None:
    """Checks suspects one after the other, in a thread, until cancelled; takes damaged replicas out of `partitions`."""
    while True:
        await _check_suspect(await partitions.suspects.take(), partitions)


async def _check_suspect(suspect: Suspect, partitions: Partitions) -> None:
    key, offset, size = suspect
    partition = partitions.find(key)
    if partition is None:
        return
    leader = partition.leader_or_none
    if leader is None:
        return
    opened = leader.log
    if opened.lacks_index:
        with suppress(KafkaError):  # the next read raises the error
            await run_paced(opened.rebuild_lost())
        return
    reason = await _damage_in(opened, offset, size, leader.epoch)
    if reason is None and opened.log_end_offset < partition.known_end:
        reason = why_incomplete(partition, opened.log_end_offset)
    # A leader never truncates: while it leads, the log is still the one that was read.
    if reason is not None and opened.health.offline is None and not leader.ended:
        if len(leader.isr.isr) > 1:
            partitions.take_out(partition, reason)
        else:
            events.REPLICA_DAMAGED_LEADER.log(log, partition=partition.name, reason=reason)


async def _damage_in(
    opened: PartitionLog, offset: Offset, size: int, epoch: LeaderEpoch
) -> str | None:
    """Returns a description of the damage, or None if the records are undamaged."""
    where = f"damaged from offset {offset} on"
    try:
        piece = opened.read(offset, size, upto_offset=opened.log_end_offset, min_one=True)
        if piece is not None:
            before = opened.epochs.epoch_for(offset - 1)
            await run_blocking(_check, piece, before, epoch)
    except OSError as error:
        opened.health.fail(f"read in {opened.directory}: {error}")
    except RemoteProtocolError as error:
        return f"{where}: {error}"
    except KafkaError as error:
        return f"{where}: {error.message}" if error.code in _DAMAGE else None
    return None


def _check(piece: LogSlice, epoch: LeaderEpoch, epoch_max: LeaderEpoch) -> None:
    """Checks the CRCs, and the fields that they do not cover: offsets must ascend within the piece, and epochs from
    `epoch` to `epoch_max`.
    """
    least = 0
    for batch in iter_batches(piece.read(), allow_old=True):
        check_crc(batch)
        in_order = least <= batch.base_offset and batch.last_offset < piece.end_offset
        is_stale = 0 <= batch.leader_epoch < epoch
        if not in_order or is_stale or batch.leader_epoch > epoch_max:
            raise RemoteProtocolError(f"{batch!r} cannot be there")
        least, epoch = batch.next_offset, batch.leader_epoch
