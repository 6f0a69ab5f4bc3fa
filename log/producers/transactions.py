"""The open transactions of a partition, and those that ended above the high watermark: both hold back the last stable
offset.

Source: `ongoingTxns` and `unreplicatedTxns` of Kafka's `ProducerStateManager`.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from trimaran.wire.identity import NO_PRODUCER_ID, Offset, ProducerId

# 64 KiB; if the watermark does not advance, the oldest two are merged, which only holds back the offset longer
ENDED_MAX = 1024


class _Ended(NamedTuple):
    first_offset: Offset
    last_offset: Offset  # the offset of the marker


class OpenTransactions:
    """The open and the unreplicated transactions; both ascend, because offsets do."""

    __slots__ = ("_ended", "_open")

    def __init__(self) -> None:
        self._open: dict[ProducerId, Offset] = {}  # producer id: first offset
        self._ended: deque[_Ended] = deque()

    def begin(self, producer_id: ProducerId, first_offset: Offset) -> None:
        self._open[producer_id] = first_offset

    def end(self, producer_id: ProducerId, last_offset: Offset) -> None:
        first_offset = self._open.pop(producer_id)
        self._ended.append(_Ended(first_offset, last_offset))
        if len(self._ended) > ENDED_MAX:
            oldest, second = self._ended.popleft(), self._ended.popleft()
            first = min(oldest.first_offset, second.first_offset)
            self._ended.appendleft(_Ended(first, second.last_offset))

    def first_open_offset(self, *, without: ProducerId = NO_PRODUCER_ID) -> Offset | None:
        """Returns the first offset of the oldest open transaction, ignoring that of producer `without`."""
        for producer_id, offset in self._open.items():
            if producer_id != without:
                return offset
        return None

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Returns the last stable offset: everything below it is decided, and the decision is replicated."""
        ended = self._ended
        if not ended and not self._open:
            return high_watermark
        while ended and ended[0].last_offset < high_watermark:
            ended.popleft()
        stable = min((txn.first_offset for txn in ended), default=high_watermark)
        first_open = self.first_open_offset()
        if first_open is not None and first_open < stable:
            stable = first_open
        return min(stable, high_watermark)
