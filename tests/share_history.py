"""The history of a share group as its members see it, and the rules that it must obey (docs/invariants.md, Q1 to Q5 and
Q9). No I/O and no clock: the caller reports requests and responses with their times, in seconds of one clock.

The simulation reports each acquisition at the moment at which the leader makes it, with the leader's `lease`. A test
with real processes only knows that an acquisition happened between its request and its response, and perhaps not who
the leader was. A rule is only applied where the times leave no doubt.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from math import inf

Require = Callable[..., None]
"""Called as `require(holds, rule, *why)` for each evaluation of a rule; raises if it does not hold."""
Place = Hashable
"""A share partition in one life of its state: a group, a partition, and the state epoch if that can change."""


class Given(IntEnum):
    """The decision of a member about a record, as in requests."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


FINAL = frozenset({Given.GAP, Given.ACCEPT, Given.REJECT})


@dataclass(slots=True)
class Delivery:
    """A delivery of a record: `asked` is when its request was sent, `at` when it was known; `lease` names the leader
    that made it, None if it is unknown. `until` is the earliest end of its lock.
    """

    member: str
    count: int
    asked: float
    at: float
    lease: object
    until: float


@dataclass(slots=True)
class RecordHistory:
    """The history of one record: `stored` is the highest count that a stored release had, `final_at` the time of the
    response to an acceptance or rejection, `wanted` the final decisions of which any may have been stored.
    """

    deliveries: int = 0
    highest: int = 0
    stored: int = 0
    final_at: float = inf
    wanted: Counter[Given] = field(default_factory=Counter)
    answered: set[Given] = field(default_factory=set)
    last: Delivery | None = None


@dataclass(slots=True, eq=False)
class Acknowledging:
    """A request that acknowledges records of one partition; `counts` and `deliveries` are those at its time."""

    place: Place
    member: str
    types: Mapping[int, Given]
    sent: float
    counts: Mapping[int, int]
    deliveries: Mapping[int, Delivery | None]


class ShareHistory:
    """The history of share partitions. `deliveries_max` is the limit of deliveries, `lock_seconds` the duration of
    locks. With `sees_all`, every acquisition is reported, also those whose response is lost.
    """

    def __init__(
        self, require: Require, *, deliveries_max: int, lock_seconds: float, sees_all: bool = False
    ) -> None:
        self._require = require
        self._deliveries_max = deliveries_max
        self._lock_seconds = lock_seconds
        self._sees_all = sees_all
        self.records: defaultdict[Place, defaultdict[int, RecordHistory]] = defaultdict(
            lambda: defaultdict(RecordHistory)
        )
        self._starts: dict[Place, int] = {}
        self._letters: defaultdict[Place, set[int]] = defaultdict(set)

    # -- deliveries

    def delivered(
        self,
        place: Place,
        member: str,
        offsets: Iterable[int],
        count: int,
        *,
        asked: float,
        at: float,
        lease: object = None,
    ) -> None:
        """Notes that a member has received records with a delivery count. Checks Q1, Q2 and Q3."""
        for offset in offsets:
            record = self.records[place][offset]
            what = (place, offset, "for", member, "count", count)
            self._require(
                asked < record.final_at,
                *("Q1", *what, "is delivered after the response to", record.answered),
            )
            self._check_count(record, count, lease, what)
            last = record.last
            if last is not None and lease is not None and last.lease == lease:
                self._require(
                    at >= last.until, *("Q3", *what, "is held by", last.member, "until", last.until)
                )
            until = asked + self._lock_seconds
            record.last = Delivery(member, count, asked, at, lease, until)
            record.deliveries += 1
            record.highest = max(record.highest, count)

    def _check_count(
        self, record: RecordHistory, count: int, lease: object, what: tuple[object, ...]
    ) -> None:
        self._require(count <= self._deliveries_max, "Q2", *what, "exceeds the limit")
        self._require(count > record.stored, "Q2", *what, "and", record.stored, "was stored")
        if self._sees_all:
            most = 1 + record.deliveries
            self._require(count <= most, "Q2", *what, "exceeds its deliveries", record.deliveries)
            last = record.last
            if last is not None and lease is not None and last.lease == lease:
                self._require(count == last.count + 1, "Q2", *what, "follows", last.count)

    # -- acknowledgements

    def acknowledges(
        self, place: Place, member: str, types: Mapping[int, int], *, at: float
    ) -> Acknowledging:
        """Notes a request before it is sent; the result is for `confirmed` or `refused`. From now on the decision may
        be stored, and the lock of the member may have ended.
        """
        counts: dict[int, int] = {}
        deliveries: dict[int, Delivery | None] = {}
        given = {offset: Given(each) for offset, each in types.items()}
        for offset, each in given.items():
            record = self.records[place][offset]
            last = record.last
            deliveries[offset] = last
            counts[offset] = record.highest if last is None else last.count
            if each in FINAL:
                record.wanted[each] += 1
            if each is not Given.RENEW and last is not None and last.member == member:
                last.until = min(last.until, at)
        return Acknowledging(place, member, given, at, counts, deliveries)

    def confirmed(self, request: Acknowledging, *, at: float) -> None:
        """Notes a response without an error. Checks Q4: no other member holds the records."""
        for offset, each in request.types.items():
            record = self.records[request.place][offset]
            before, last = request.deliveries[offset], record.last
            if offset < self._starts.get(request.place, 0):
                continue
            if before is not None and before is last:
                self._require(
                    before.member == request.member or at >= before.until,
                    *("Q4", request.place, offset, "is acknowledged by", request.member),
                    *("and held by", before.member),
                )
            if before is None or before.member != request.member:
                continue  # a record that is done is acknowledged without an effect
            if each in FINAL:
                record.final_at = min(record.final_at, at)
                record.answered.add(each)
            elif each is Given.RELEASE and not record.wanted:
                record.stored = max(record.stored, request.counts[offset])
            elif each is Given.RENEW and last is before:
                before.until = max(before.until, request.sent + self._lock_seconds)

    def refused(self, request: Acknowledging) -> None:
        """Notes an error after which certainly nothing of the request is stored."""
        for offset, each in request.types.items():
            if each in FINAL:
                self.records[request.place][offset].wanted -= Counter((each,))

    def session_ended(self, place: Place, member: str, *, at: float) -> None:
        """Notes that all locks of a member may end from now on."""
        for record in self.records[place].values():
            if record.last is not None and record.last.member == member:
                record.last.until = min(record.last.until, at)

    def start(self, place: Place) -> int:
        """Returns the offset below which records need not be delivered."""
        return self._starts.get(place, 0)

    def starts_at(self, place: Place, offset: int) -> None:
        """Notes that records below `offset` need not be delivered any more: they are deleted or were skipped."""
        self._starts[place] = max(offset, self._starts.get(place, 0))

    # -- dead letters

    def letter(self, place: Place, offset: int, count: int) -> None:
        """Notes a record in the dead-letter queue. Checks Q9: the group has given it up."""
        record = self.records[place][offset]
        self._letters[place].add(offset)
        self._require(
            Given.REJECT in record.wanted or record.highest >= self._deliveries_max,
            *("Q9", place, offset, "is in the dead-letter queue after", record.deliveries),
            *("deliveries, and", record.wanted),
        )
        self._require(
            1 <= count <= self._deliveries_max, "Q9", place, offset, "has the count", count
        )

    def has_letter(self, place: Place, offset: int) -> None:
        """Notes a letter that may be about this life of the share partition or about another one."""
        self._letters[place].add(offset)

    # -- the end

    def is_final(self, place: Place, offset: int) -> bool:
        """Whether a record may be done: accepted, rejected, or delivered as often as allowed."""
        record = self.records[place][offset]
        return bool(record.wanted) or record.highest >= self._deliveries_max

    def check_complete(
        self, place: Place, offsets: Iterable[int], *, has_letters: bool = False
    ) -> None:
        """Checks at the end Q5: each record was delivered, and is done; with `has_letters` also Q9: the queue has each
        record that was rejected or delivered as often as allowed, and was not accepted.
        """
        for offset in offsets:
            if offset < self._starts.get(place, 0):
                continue
            record = self.records[place][offset]
            self._require(record.deliveries > 0, "Q5", place, offset, "was never delivered")
            self._require(self.is_final(place, offset), "Q5", place, offset, "is not done")
            if has_letters and (
                Given.REJECT in record.answered
                or (record.highest >= self._deliveries_max and not record.wanted)
            ):
                self._require(
                    offset in self._letters[place], "Q9", place, offset, "has no dead letter"
                )
