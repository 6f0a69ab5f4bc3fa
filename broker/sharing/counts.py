"""The counts of deliveries to share groups on this broker, in plain integers.

Source: Kafka's `ShareGroupMetrics`, and `DelayedShareFetchMetrics`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trimaran.wire.transport.metrics.time_histogram import TimeHistogram


class DeliveryCounts:
    """The counts of one share group, while this broker has a share partition of it.

    `acquire_times` are the times from a fetch to its response, which may have no records. `letters` are records in the
    dead-letter queue, `letter_produces` the requests that wrote them, `failed_letter_produces` those that were given
    up.
    """

    __slots__ = ("acquire_times", "failed_letter_produces", "letter_produces", "letters")

    def __init__(self) -> None:
        self.acquire_times = TimeHistogram()
        self.letters = 0
        self.letter_produces = 0
        self.failed_letter_produces = 0


class ShareCounts:
    """The counts of all share groups; `_rest` has those of groups without a share partition, so that the sum over all
    groups never decreases.

    `acknowledgements` are records by `AcknowledgeType`. `waiting` fetches wait for records at this moment.
    """

    def __init__(self) -> None:
        self.acknowledgements: Counter[int] = Counter()
        self.load_times = TimeHistogram()
        self.evictions = 0
        self.waiting = 0
        self.expired = 0
        self._groups: dict[str, DeliveryCounts] = {}
        self._rest = DeliveryCounts()

    def begin(self, group_id: str) -> None:
        """Counts the group separately from now on."""
        self._groups.setdefault(group_id, DeliveryCounts())

    def of(self, group_id: str) -> DeliveryCounts:
        return self._groups.get(group_id, self._rest)

    def end(self, group_id: str) -> None:
        """Forgets a group that has no share partition here any more; its letters stay in the sum."""
        gone = self._groups.pop(group_id, None)
        if gone is not None:
            rest = self._rest
            rest.letters += gone.letters
            rest.letter_produces += gone.letter_produces
            rest.failed_letter_produces += gone.failed_letter_produces

    def groups(self) -> Iterator[tuple[str, DeliveryCounts]]:
        """Yields the counts of each group with a share partition here."""
        yield from sorted(self._groups.items())

    def everything(self) -> Iterator[DeliveryCounts]:
        """Yields counts that add up to those of all groups."""
        yield self._rest
        yield from self._groups.values()
