"""Which of the batches that a leader sent continue a follower's log.

Source: `UnifiedLog.analyzeAndValidateRecords` of Kafka, which leaves out what is of a later epoch, too. Stricter:
epochs do not descend.
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
    """The batches that continue a log which ends at `end_offset` in `epoch`, and what is wrong with the one after them.

    None where batches contradict each other. `may_begin_lower`: if the leader's log starts inside a batch, a log
    without records takes the whole batch and starts there too.
    """
    views: list[BatchView] = []
    try:
        for view in iter_batches(records, allow_partial_tail=True, allow_old=True):
            check_crc(view)
            if view.leader_epoch > leader_epoch or view.next_offset > OFFSET_MAX:
                raise RemoteProtocolError(f"no leader of epoch {leader_epoch} has {view!r}")
            is_first = may_begin_lower and not views and end_offset <= view.last_offset
            # Recovery takes an older epoch behind a newer one for what was truncated, and cuts there.
            is_stale = 0 <= view.leader_epoch < epoch
            if is_stale or (view.base_offset < end_offset and not is_first):
                # No CRC covers these fields: it may be the batch before that lies.
                return [], KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"{view!r} does not continue the log at {end_offset}, epoch {epoch}",
                )
            views.append(view)
            end_offset, epoch = view.next_offset, view.leader_epoch
    except (KafkaError, RemoteProtocolError) as flaw:
        return views, flaw
    return views, None
