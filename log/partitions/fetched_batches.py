"""The choice of the batches sent by a leader that continue a follower's log.

Source: `UnifiedLog.analyzeAndValidateRecords` of Kafka, which also omits batches of a later epoch. This check is
stricter: epochs must not decrease.
"""

from __future__ import annotations

from trimaran.log.batches.batch import BatchView, check_crc, iter_batches
from trimaran.wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.identity import LeaderEpoch, Offset

OFFSET_MAX = (1 << 63) - 1  # an int64 on the wire and in files


def sound_batches(
    records: memoryview,
    end_offset: Offset,
    *,
    epoch: LeaderEpoch,
    leader_epoch: LeaderEpoch,
    may_begin_lower: bool,
) -> tuple[list[BatchView], KafkaError | RemoteProtocolError | None]:
    """Returns the batches that continue a log which ends at `end_offset` in `epoch`, and the fault of the batch after
    them.

    None if batches contradict each other. `may_begin_lower`: if the leader's log starts inside a batch, an empty log
    takes the whole batch and starts at the same offset.
    """
    views: list[BatchView] = []
    try:
        for view in iter_batches(records, allow_partial_tail=True, allow_old=True):
            check_crc(view)
            if view.leader_epoch > leader_epoch or view.next_offset > OFFSET_MAX:
                raise RemoteProtocolError(f"no leader of epoch {leader_epoch} has {view!r}")
            is_first = may_begin_lower and not views and end_offset <= view.last_offset
            # Recovery treats an older epoch after a newer one as truncated records, and cuts there.
            is_stale = 0 <= view.leader_epoch < epoch
            if is_stale or (view.base_offset < end_offset and not is_first):
                # No CRC covers these fields, so the previous batch may be the wrong one.
                return [], KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"{view!r} does not continue the log at {end_offset}, epoch {epoch}",
                )
            views.append(view)
            end_offset, epoch = view.next_offset, view.leader_epoch
    except (KafkaError, RemoteProtocolError) as flaw:
        return views, flaw
    return views, None
