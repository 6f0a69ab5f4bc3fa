"""The rules for observations of a share group: each record is delivered, decided and counted as KIP-932 says.

Clients and simulations append their observations to a `History`; `judge` compares it with what is known at the end.
Everything is pure; times are seconds of any clock that all observers share. An observation is an interval: the leader
has acted at some time between `sent` and `received`. A request without an answer may be executed at any later time.
`tests/chaos/test_share_history.py` breaks each rule with a history.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from math import inf
from typing import NamedTuple


class Place(NamedTuple):
    """A record of the shared topic."""

    partition: int
    offset: int


class Kind(Enum):
    """The types of acknowledgement that a client chooses."""

    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


FINAL = (Kind.ACCEPT, Kind.REJECT)


class Result(Enum):
    """The answer to an acknowledgement. An error that says nothing about the stored state is UNKNOWN."""

    CONFIRMED = "confirmed"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Delivery(NamedTuple):
    """A record that a member received, as its `count`-th delivery.

    `term` identifies the time in which a leader surely was the only one, such as its epoch; None: not known. `is_stale`
    allows what a leader does that does not know of its successor: it delivers by an old state.
    """

    member: str
    place: Place
    count: int
    sent: float
    received: float
    value: bytes | None = None
    term: Hashable = None
    is_stale: bool = False


class Decision(NamedTuple):
    """An acknowledgement of one record, and its result; `received` is infinite without an answer."""

    member: str
    place: Place
    kind: Kind
    result: Result
    sent: float
    received: float = inf
    term: Hashable = None


class LostFetch(NamedTuple):
    """A fetch without an answer: it may have acquired any record of the partition, each once."""

    member: str
    partition: int
    sent: float


class Left(NamedTuple):
    """The earliest time at which the leader may have ended a session of the member, and released its records."""

    member: str
    partition: int
    at: float


class Letter(NamedTuple):
    """A record of the dead-letter queue; `is_rejected` is its cause, otherwise too many deliveries."""

    place: Place
    count: int
    is_rejected: bool
    value: bytes | None = None


@dataclass
class History:
    """The observations of a run, in any order."""

    deliveries: list[Delivery] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    lost: list[LostFetch] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)


@dataclass(frozen=True)
class Ending:
    """The end of a run, and the settings of its group.

    Args:
        log: the values of all records that the group may deliver.
        starts: the group's start offset of each partition. Records before it are not delivered again.
        has_queue: the group has a dead-letter queue, which was never out of reach for longer than its retries.
        is_calm: without faults, a letter is never written again.
    """

    log: Mapping[Place, bytes]
    starts: Mapping[int, int]
    limit: int
    lock_seconds: float
    has_queue: bool = False
    is_calm: bool = False


class Rule(Enum):
    """The rules; the value tells how each is broken."""

    NOT_ENDED = "a record is neither accepted nor archived at the end"
    NEVER_DELIVERED = "a record was never delivered"
    ENDED_WITHOUT_REASON = "a record has ended without a decision, below the limit of deliveries"
    DELIVERED_AFTER_END = "a record was delivered after its confirmed end"
    COUNT_TOO_HIGH = "a delivery count has no delivery before it, or is beyond the limit"
    COUNT_TOO_LOW = "a delivery count forgets a delivery that is known"
    TWO_HOLDERS = "a record was delivered while a member held it"
    HOLDER_REFUSED = "a decision of the holder was refused"
    ALTERED = "a record was delivered that is not in the log like this"
    LETTER_MISSING = "a record has ended without acceptance, and without a letter"
    LETTER_WITHOUT_REASON = "a letter has a cause or count that no delivery has"
    LETTER_DOUBLED = "two letters are about one record, without a fault"


class Breach(NamedTuple):
    """A broken rule."""

    rule: Rule
    place: Place
    detail: str

    def __str__(self) -> str:
        return f"{self.rule.name} {self.place.partition}/{self.place.offset}: {self.detail}"


def judge(history: History, ending: Ending) -> list[Breach]:
    """Returns all broken rules, by place."""
    index = _Index(history)
    places = {*ending.log, *index.deliveries, *index.decisions, *index.letters}
    return [
        breach for place in sorted(places) for breach in _Record(place, index, ending).breaches()
    ]


def letter_of(headers: Iterable[tuple[str, bytes | None]], value: bytes | None) -> Letter:
    """Returns the letter of a queue's record. Raises ValueError if its headers are not those of KIP-1191."""
    texts = {name.removeprefix("__dlq.errors."): (text or b"").decode() for name, text in headers}
    wanted = {"topic", "partition", "offset", "group", "delivery.count", "message"}
    if set(texts) != wanted or not texts["topic"] or not texts["group"]:
        raise ValueError(f"the headers of a dead letter are {texts}")
    causes = {
        "Offset rejected by client.": True,
        "Offset delivery count exceeded the threshold.": False,
    }
    if texts["message"] not in causes:
        raise ValueError(f"{texts['message']!r} is no cause of a dead letter")
    place = Place(int(texts["partition"]), int(texts["offset"]))
    return Letter(place, int(texts["delivery.count"]), causes[texts["message"]], value)


def told(breaches: Sequence[Breach], most: int = 5) -> str:
    """Returns the counts of broken rules, and the first breaches."""
    if not breaches:
        return "no rule broken"
    counts = Counter(breach.rule.name for breach in breaches)
    numbers = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    return "; ".join([numbers, *map(str, breaches[:most])])


class _Index:
    """The observations by record and partition."""

    def __init__(self, history: History) -> None:
        self.deliveries: dict[Place, list[Delivery]] = defaultdict(list)
        for delivery in sorted(history.deliveries, key=lambda each: each.received):
            self.deliveries[delivery.place].append(delivery)
        self.decisions: dict[Place, list[Decision]] = defaultdict(list)
        for decision in sorted(history.decisions, key=lambda each: each.sent):
            self.decisions[decision.place].append(decision)
        self.letters: dict[Place, list[Letter]] = defaultdict(list)
        for letter in history.letters:
            self.letters[letter.place].append(letter)
        self.lost: dict[int, list[LostFetch]] = defaultdict(list)
        for fetch in history.lost:
            self.lost[fetch.partition].append(fetch)
        self.left: dict[tuple[str, int], list[float]] = defaultdict(list)
        for left in history.left:
            self.left[left.member, left.partition].append(left.at)


class _Record:
    """The observations of one record."""

    def __init__(self, place: Place, index: _Index, ending: Ending) -> None:
        self._place, self._ending = place, ending
        self._deliveries = index.deliveries.get(place, [])
        self._decisions = index.decisions.get(place, [])
        self._letters = index.letters.get(place, [])
        self._lost = index.lost.get(place.partition, [])
        self._left = index.left

    def breaches(self) -> Iterator[Breach]:
        """Yields the broken rules."""
        for rule, detail in (
            *self._end(),
            *self._after_end(),
            *self._counts(),
            *self._holders(),
            *self._refusals(),
            *self._values(),
            *self._queue(),
        ):
            yield Breach(rule, self._place, detail)

    # -- what is known

    def _is_decided(self, *kinds: Kind) -> bool:
        """Whether such a decision may have been stored."""
        return any(
            decision.kind in kinds and decision.result is not Result.REFUSED
            for decision in self._decisions
        )

    def _lost_before(self, time: float) -> int:
        return sum(fetch.sent < time for fetch in self._lost)

    def _may_reach(self, count: int, deliveries: Iterable[Delivery]) -> bool:
        """Whether these deliveries, and the lost ones, may have given the record this count."""
        return max((each.count for each in deliveries), default=0) + len(self._lost) >= count

    def _delivery_of(self, decision: Decision) -> Delivery | None:
        """Returns the delivery that the member decides about."""
        found = None
        for delivery in self._deliveries:
            if delivery.member == decision.member and delivery.received <= decision.sent:
                found = delivery
        return found

    def _decisions_on(self, delivery: Delivery) -> list[Decision]:
        return [each for each in self._decisions if self._delivery_of(each) is delivery]

    def _left_between(self, delivery: Delivery, until: float) -> bool:
        times = self._left.get((delivery.member, self._place.partition), ())
        return any(delivery.sent <= at <= until for at in times)

    def _lock_end(self, delivery: Delivery, before: float) -> float:
        """Returns the time until which the member surely holds the record, by renewals that were sent `before`."""
        renewals = [
            each.sent
            for each in self._decisions_on(delivery)
            if each.kind is Kind.RENEW
            and each.result is Result.CONFIRMED
            and each.received <= before
        ]
        return max([delivery.sent, *renewals]) + self._ending.lock_seconds

    # -- the rules

    def _end(self) -> Iterator[tuple[Rule, str]]:
        if self._place not in self._ending.log:
            return
        start = self._ending.starts.get(self._place.partition, 0)
        if self._place.offset >= start:
            yield Rule.NOT_ENDED, f"the group begins at {start}"
            return
        if self._may_reach(self._ending.limit, self._deliveries):
            return
        if not self._deliveries:
            yield Rule.NEVER_DELIVERED, f"lost fetches: {len(self._lost)}"
        elif not self._is_decided(*FINAL):
            counts = [each.count for each in self._deliveries]
            yield Rule.ENDED_WITHOUT_REASON, f"delivered as {counts}, lost: {len(self._lost)}"

    def _after_end(self) -> Iterator[tuple[Rule, str]]:
        ends = [
            each
            for each in self._decisions
            if each.kind in FINAL and each.result is Result.CONFIRMED
        ]
        for delivery in self._deliveries:
            for end in ends:
                if end.received <= delivery.sent and not delivery.is_stale:
                    yield Rule.DELIVERED_AFTER_END, f"{delivery} after {end}"

    def _counts(self) -> Iterator[tuple[Rule, str]]:
        for delivery in self._deliveries:
            before = {
                each.count
                for each in self._deliveries
                if each is not delivery and each.sent < delivery.received
            }
            lost = self._lost_before(delivery.received)
            possible = any(
                delivery.count - 1 - missed in before | {0} for missed in range(lost + 1)
            )
            if delivery.count > self._ending.limit or not possible:
                yield Rule.COUNT_TOO_HIGH, f"{delivery} after {sorted(before)}, lost: {lost}"
            if not delivery.is_stale:
                known = max(self._known_before(delivery), default=0)
                if delivery.count <= known:
                    yield Rule.COUNT_TOO_LOW, f"{delivery}, though {known} is known"

    def _known_before(self, delivery: Delivery) -> Iterator[int]:
        """Yields counts that the leader knew at a delivery: those that were stored, and those of its own term."""
        for decision in self._decisions:
            about = self._delivery_of(decision)
            if (
                about is not None
                and decision.kind is Kind.RELEASE
                and decision.result is Result.CONFIRMED
                and decision.received <= delivery.sent
            ):
                yield about.count
        for each in self._deliveries:
            if (
                each.received <= delivery.sent
                and each.term is not None
                and each.term == delivery.term
                and not self._left_between(each, delivery.received)
            ):
                yield each.count

    def _holders(self) -> Iterator[tuple[Rule, str]]:
        for holder in self._deliveries:
            decided = min(
                (each.sent for each in self._decisions_on(holder) if each.kind is not Kind.RENEW),
                default=inf,
            )
            for other in self._deliveries:
                if (
                    holder.term is not None
                    and holder.term == other.term
                    and holder.received <= other.sent
                    and other.received <= min(decided, self._lock_end(holder, other.sent))
                    and not self._left_between(holder, other.received)
                ):
                    yield Rule.TWO_HOLDERS, f"{holder} and {other}"

    def _refusals(self) -> Iterator[tuple[Rule, str]]:
        for delivery in self._deliveries:
            for before, decision in pairwise([None, *self._decisions_on(delivery)]):
                if decision is None or decision.result is not Result.REFUSED:
                    continue
                if (
                    delivery.term is not None
                    and delivery.term == decision.term
                    and (before is None or _keeps_lock(before))
                    and decision.received <= self._lock_end(delivery, decision.sent)
                    and not self._left_between(delivery, decision.received)
                ):
                    yield Rule.HOLDER_REFUSED, f"{decision} about {delivery}"

    def _values(self) -> Iterator[tuple[Rule, str]]:
        wanted = self._ending.log.get(self._place)
        for seen in (*self._deliveries, *self._letters):
            if wanted is None or (seen.value is not None and seen.value != wanted):
                yield Rule.ALTERED, f"{seen}, the log has {wanted!r}"

    def _queue(self) -> Iterator[tuple[Rule, str]]:
        ended = self._place.offset < self._ending.starts.get(self._place.partition, 0)
        is_wanted = self._ending.has_queue and ended and self._place in self._ending.log
        if is_wanted and not self._letters and not self._is_decided(Kind.ACCEPT):
            yield Rule.LETTER_MISSING, f"decisions: {self._decisions}"
        for letter in self._letters:
            if not self._has_reason(letter):
                yield Rule.LETTER_WITHOUT_REASON, f"{letter}, delivered as {self._deliveries}"
        if self._ending.is_calm and len(self._letters) > 1:
            yield Rule.LETTER_DOUBLED, f"{self._letters}"

    def _has_reason(self, letter: Letter) -> bool:
        if letter.is_rejected:
            return any(
                about is not None
                and about.count == letter.count
                and decision.kind is Kind.REJECT
                and decision.result is not Result.REFUSED
                for decision in self._decisions
                for about in [self._delivery_of(decision)]
            )
        others = [each for each in self._deliveries if not self._is_surely_accepted(each)]
        return letter.count == self._ending.limit and self._may_reach(letter.count, others)

    def _is_surely_accepted(self, delivery: Delivery) -> bool:
        """Whether the accept took effect: later, an acknowledgement of an archived record also succeeds."""
        return any(
            each.kind is Kind.ACCEPT
            and each.result is Result.CONFIRMED
            and each.received <= self._lock_end(delivery, each.sent)
            for each in self._decisions_on(delivery)
        )


def _keeps_lock(decision: Decision) -> bool:
    """Whether the member holds the record after this decision as before it."""
    return decision.kind is Kind.RENEW and decision.result is Result.CONFIRMED
