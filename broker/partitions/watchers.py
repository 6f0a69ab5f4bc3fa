"""The readers that wait for more data in a partition.

A fetch reads many partitions and waits once: it registers an `Interest` with each of them, which marks the partition
for another read and wakes the single waiting task. It therefore needs no task and no event per partition.
"""

from __future__ import annotations

from typing import Any, Protocol


class Reader(Protocol):
    """A reader of several partitions."""

    def data_changed(self, interest: Any) -> None:
        """Marks the partition of `interest` for another read, because of new data or any other change. Must not
        block.
        """

    def watermark_changed(self, interest: Any) -> None:
        """Reports to a reader beyond the high watermark that the high watermark has moved. Must not block."""


class Interest:
    """One reader's registration for the changes of one partition; compared by identity."""

    __slots__ = ("reader",)

    def __init__(self, reader: Reader) -> None:
        self.reader = reader


class Watchers:
    """The interests in one partition, by the offset up to which their readers may read.

    Bounded by the live fetches and fetch sessions, which the transport and the session cache bound.
    """

    __slots__ = ("_upto_end", "_upto_watermark")

    def __init__(self) -> None:
        self._upto_end: dict[Interest, None] = {}
        self._upto_watermark: dict[Interest, None] = {}

    def add(self, interest: Interest, *, upto_end: bool) -> None:
        """Adds an interest: followers read up to the log's end, all other readers up to the high watermark."""
        (self._upto_end if upto_end else self._upto_watermark)[interest] = None

    def discard(self, interest: Interest) -> None:
        for interests in (self._upto_end, self._upto_watermark):
            interests.pop(interest, None)

    def end_moved(self) -> None:
        for interest in self._upto_end:
            interest.reader.data_changed(interest)

    def watermark_moved(self) -> None:
        for interest in self._upto_watermark:
            interest.reader.data_changed(interest)
        for interest in self._upto_end:
            interest.reader.watermark_changed(interest)

    def notify_all(self) -> None:
        """Notifies all readers: an epoch has begun or ended, or the partition is gone."""
        for interest in (*self._upto_watermark, *self._upto_end):
            interest.reader.data_changed(interest)
