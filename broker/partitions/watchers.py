"""The readers that wait until a partition has more to give.

A fetch reads many partitions and waits once: it leaves an `Interest` with each, which marks the partition as
worth another look and wakes the one task that waits. No task and no event per partition.
"""

from __future__ import annotations

from typing import Any, Protocol


class Reader(Protocol):
    """A reader of several partitions."""

    def data_changed(self, interest: Any) -> None:
        """There is more to read where `interest` is, or it must be looked at for another reason. Must not block."""

    def watermark_changed(self, interest: Any) -> None:
        """The high watermark has moved, for one who reads beyond it. Must not block."""


class Interest:
    """One reader's standing wish to hear of one partition; compared by identity."""

    __slots__ = ("reader",)

    def __init__(self, reader: Reader) -> None:
        self.reader = reader


class Watchers:
    """The interests in one partition, by what their readers may read up to.

    Bounded by the fetches and fetch sessions alive, which the transport and the session cache bound.
    """

    __slots__ = ("_upto_end", "_upto_watermark")

    def __init__(self) -> None:
        self._upto_end: dict[Interest, None] = {}
        self._upto_watermark: dict[Interest, None] = {}

    def add(self, interest: Interest, *, upto_end: bool) -> None:
        """Followers read up to the log's end, all others up to the high watermark."""
        (self._upto_end if upto_end else self._upto_watermark)[interest] = None

    def discard(self, interest: Interest) -> None:
        self._upto_end.pop(interest, None)
        self._upto_watermark.pop(interest, None)

    def end_moved(self) -> None:
        for interest in self._upto_end:
            interest.reader.data_changed(interest)

    def watermark_moved(self) -> None:
        for interest in self._upto_watermark:
            interest.reader.data_changed(interest)
        for interest in self._upto_end:
            interest.reader.watermark_changed(interest)

    def notify_all(self) -> None:
        """An epoch began or ended, or the partition is gone."""
        for interest in (*self._upto_watermark, *self._upto_end):
            interest.reader.data_changed(interest)
