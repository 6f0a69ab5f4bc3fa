"""The rules for what members of a share group observe (docs/invariants.md, Q1 to Q5, Q9 and Q12). No I/O and no clock.

An observation is an interval: the leader has acted at some time between `sent` and `received`, which are seconds of any
clock that all observers share. A request without an answer may be executed at any later time. A rule is only applied
where the times leave no doubt.

The simulation adds observations as they happen to `Observed`, and judges each. Runs of real processes note all of them
in a `History`, and `judge` them at the end. The stored states have rules of their own: `tests/simulation/shares/`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from math import inf
from typing import NamedTuple


class Place(NamedTuple):
    """A record; `partition` names the share partition, and its state's life, if an operator may start a new one by a
    reset.
    """

    partition: Hashable
    offset: int


class Kind(Enum):
    """The types of acknowledgement that a client chooses, as in requests."""

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

    `term` identifies a time in which the leader was certainly the only one, such as its epoch; None if it is unknown.
    `is_stale`: the leader may not know of its successor yet, so it may deliver by an old state.
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
    partition: Hashable
    sent: float


class Left(NamedTuple):
    """The earliest time at which the leader may have ended a session of the member, and released its records."""

    member: str
    partition: Hashable
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
class Settings:
    """The settings of a group.

    Args:
        knows_leases: a `term` is a time in which one leader kept one state in memory, so it forgot no count.
        has_queue: the group has a dead-letter queue, which was never out of reach for longer than its retries.
        is_calm: the run has no faults, so each dead letter is written at most once.
    """

    limit: int
    lock_seconds: float
    knows_leases: bool = False
    has_queue: bool = False
    is_calm: bool = False


@dataclass(frozen=True)
class Ending:
    """The end of a run: the values of all records that the group may deliver, and which of them are done."""

    log: Mapping[Place, bytes]
    has_ended: Callable[[Place], bool]

    @staticmethod
    def at(log: Mapping[Place, bytes], starts: Mapping[Hashable, int]) -> Ending:
        """Returns the end of a run after which the start offsets of the partitions are `starts`."""
        return Ending(log, lambda place: place.offset < starts.get(place.partition, 0))


class Rule(Enum):
    """The ways in which the rules of docs/invariants.md are broken."""

    DELIVERED_AFTER_END = "Q1: a record was delivered after its confirmed end"
    COUNT_TOO_HIGH = "Q2: a delivery count has no delivery before it, or is beyond the limit"
    COUNT_TOO_LOW = "Q2: a delivery count forgets a delivery that is known"
    TWO_HOLDERS = "Q3: a record was delivered while a member held it"
    HOLDER_REFUSED = "Q4: a decision of the holder was refused"
    OTHER_ACCEPTED = "Q4: a decision was accepted while another member held the record"
    NOT_ENDED = "Q5: a record is neither accepted nor archived at the end"
    NEVER_DELIVERED = "Q5: a record was never delivered"
    ENDED_WITHOUT_REASON = (
        "Q5: a record has ended without a decision, below the limit of deliveries"
    )
    LETTER_MISSING = "Q9: a record has ended without acceptance, and without a letter"
    LETTER_WITHOUT_REASON = "Q9: a letter has a cause or count that no delivery has"
    LETTER_DOUBLED = "Q9: two letters are about one record, without a fault"
    ALTERED = "Q12: a record was delivered that is not in the log like this"

    @property
    def id(self) -> str:
        return self.value.partition(":")[0]


class Breach(NamedTuple):
    """A broken rule."""

    rule: Rule
    place: Place
    detail: str

    def __str__(self) -> str:
        return f"{self.rule.name} {self.place.partition}/{self.place.offset}: {self.detail}"


Found = Iterator[tuple[Rule, str]]


def judge(history: History, settings: Settings, ending: Ending) -> list[Breach]:
    """Returns all broken rules, by place."""
    observed = Observed(settings)
    for fetch in history.lost:
        observed.lost[fetch.partition].append(fetch)
    for left in history.left:
        observed.left(left)
    for delivery in sorted(history.deliveries, key=lambda each: each.received):
        observed[delivery.place].deliveries.append(delivery)
    for decision in sorted(history.decisions, key=lambda each: each.sent):
        observed[decision.place].decisions.append(decision)
    for letter in history.letters:
        observed[letter.place].letters.append(letter)
    places = sorted({*ending.log, *observed.records})
    return [breach for place in places for breach in observed[place].judged(ending)]


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


class Observed:
    """The records of a group with what was observed about them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.records: dict[Place, Record] = {}
        self.lost: defaultdict[Hashable, list[LostFetch]] = defaultdict(list)
        self.ends: defaultdict[tuple[str, Hashable], list[float]] = defaultdict(list)

    def __getitem__(self, place: Place) -> Record:
        if place not in self.records:
            self.records[place] = Record(place, self)
        return self.records[place]

    def left(self, left: Left) -> None:
        self.ends[left.member, left.partition].append(left.at)


class Record:
    """The observations of one record: deliveries in the order in which they were received, decisions in the order in
    which they were sent.
    """

    def __init__(self, place: Place, observed: Observed) -> None:
        self.place = place
        self.deliveries: list[Delivery] = []
        self.decisions: list[Decision] = []
        self.letters: list[Letter] = []
        self._settings = observed.settings
        self._lost = observed.lost[place.partition]
        self._ends = observed.ends

    # -- judgements

    def judged(self, ending: Ending) -> Iterator[Breach]:
        """Yields all broken rules."""
        yield from self.judged_end(is_ended=ending.has_ended(self.place), log=ending.log)
        for delivery in self.deliveries:
            yield from self.judged_delivery(delivery)
        for decision in self.decisions:
            yield from self.judged_decision(decision)
        yield from self._breaches(self._refusals(), self._values(ending.log))
        for letter in self.letters:
            yield from self.judged_letter(letter)

    def judged_delivery(self, delivery: Delivery) -> Iterator[Breach]:
        """Yields the rules that a delivery breaks, given the known ones before it (Q1 to Q3)."""
        return self._breaches(
            self._after_end(delivery), self._counts(delivery), self._holders(delivery)
        )

    def judged_decision(self, decision: Decision) -> Iterator[Breach]:
        """Yields the rules that the answer to a decision breaks (Q4)."""
        return self._breaches(self._others(decision))

    def judged_letter(self, letter: Letter) -> Iterator[Breach]:
        """Yields the rules that a letter breaks (Q9)."""
        if not self._has_reason(letter):
            detail = f"{letter}, delivered as {self.deliveries}"
            yield Breach(Rule.LETTER_WITHOUT_REASON, self.place, detail)

    def judged_end(self, *, is_ended: bool, log: Mapping[Place, bytes]) -> Iterator[Breach]:
        """Yields the rules that are broken at the end of a run (Q5 and Q9)."""
        return self._breaches(self._end(is_ended, log), self._queue(is_ended, log))

    def _breaches(self, *found: Found) -> Iterator[Breach]:
        return (Breach(rule, self.place, detail) for each in found for rule, detail in each)

    # -- what is known

    def may_be(self, *kinds: Kind) -> bool:
        """Whether a decision of one of these kinds may have been stored."""
        return any(
            decision.kind in kinds and decision.result is not Result.REFUSED
            for decision in self.decisions
        )

    @property
    def may_be_used_up(self) -> bool:
        """Whether the record may have been delivered as often as allowed."""
        return self._may_reach(self._settings.limit, self.deliveries)

    def answered(self, decision: Decision, result: Result, at: float) -> Decision:
        """Notes the answer to a decision, and returns the decision with it."""
        answered = decision._replace(result=result, received=at)
        self.decisions[self.decisions.index(decision)] = answered
        return answered

    def _may_reach(self, count: int, deliveries: Iterable[Delivery]) -> bool:
        """Whether these deliveries, and the lost ones, may have given the record this count."""
        return max((each.count for each in deliveries), default=0) + len(self._lost) >= count

    def _delivery_of(self, decision: Decision) -> Delivery | None:
        """Returns the delivery that the member decides about."""
        found = None
        for delivery in self.deliveries:
            if delivery.member == decision.member and delivery.received <= decision.sent:
                found = delivery
        return found

    def _decisions_on(self, delivery: Delivery) -> list[Decision]:
        return [each for each in self.decisions if self._delivery_of(each) is delivery]

    def _left_between(self, delivery: Delivery, until: float) -> bool:
        times = self._ends.get((delivery.member, self.place.partition), ())
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
        return max([delivery.sent, *renewals]) + self._settings.lock_seconds

    def _holds(self, holder: Delivery, term: Hashable, since: float, until: float) -> bool:
        """Whether a member surely holds the record from before `since` until after `until`, in a leader's term."""
        if holder.term is None or holder.term != term or holder.received > since:
            return False
        decided = [each.sent for each in self._decisions_on(holder) if each.kind is not Kind.RENEW]
        return until < min([*decided, self._lock_end(holder, since)]) and not self._left_between(
            holder, until
        )

    # -- the rules

    def _after_end(self, delivery: Delivery) -> Found:
        for end in self.decisions:
            if (
                end.kind in FINAL
                and end.result is Result.CONFIRMED
                and end.received <= delivery.sent
                and not delivery.is_stale
            ):
                yield Rule.DELIVERED_AFTER_END, f"{delivery} after {end}"

    def _counts(self, delivery: Delivery) -> Found:
        before = {
            each.count
            for each in self.deliveries
            if each is not delivery and each.sent <= delivery.received
        }
        of_term = [*self._counts_of_term(delivery)]
        lost = sum(fetch.sent <= delivery.received for fetch in self._lost)
        possible = {0, *before} if not of_term or not self._settings.knows_leases else of_term[-1:]
        if delivery.count > self._settings.limit or not any(
            delivery.count - 1 - missed in possible for missed in range(lost + 1)
        ):
            yield Rule.COUNT_TOO_HIGH, f"{delivery} after {sorted(before)}, lost: {lost}"
        known = max([0, *of_term, *self._stored_counts(delivery)])
        if delivery.count <= known and not delivery.is_stale:
            yield Rule.COUNT_TOO_LOW, f"{delivery}, though {known} is known"

    def _stored_counts(self, delivery: Delivery) -> Iterator[int]:
        """Yields the counts that were certainly stored before a delivery."""
        for decision in self.decisions:
            about = self._delivery_of(decision)
            if (
                about is not None
                and decision.kind is Kind.RELEASE
                and decision.result is Result.CONFIRMED
                and decision.received <= delivery.sent
            ):
                yield about.count

    def _counts_of_term(self, delivery: Delivery) -> Iterator[int]:
        """Yields the counts that the leader of a delivery has returned before; it may forget them at the end of a
        session.
        """
        for each in self.deliveries:
            if (
                each is not delivery
                and each.received <= delivery.sent
                and each.term is not None
                and each.term == delivery.term
                and (self._settings.knows_leases or not self._left_between(each, delivery.received))
            ):
                yield each.count

    def _holders(self, delivery: Delivery) -> Found:
        for holder in self.deliveries:
            if holder is not delivery and self._holds(
                holder, delivery.term, delivery.sent, delivery.received
            ):
                yield Rule.TWO_HOLDERS, f"{holder} and {delivery}"

    def _others(self, decision: Decision) -> Found:
        if decision.result is not Result.CONFIRMED:
            return
        for holder in self.deliveries:
            if holder.member != decision.member and self._holds(
                holder, decision.term, decision.sent, decision.received
            ):
                yield Rule.OTHER_ACCEPTED, f"{decision}, held by {holder}"

    def _refusals(self) -> Found:
        for delivery in self.deliveries:
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

    def _end(self, is_ended: bool, log: Mapping[Place, bytes]) -> Found:
        if self.place not in log:
            return
        if not is_ended:
            yield Rule.NOT_ENDED, f"delivered as {[each.count for each in self.deliveries]}"
        elif self.may_be_used_up:
            return
        elif not self.deliveries:
            yield Rule.NEVER_DELIVERED, f"lost fetches: {len(self._lost)}"
        elif not self.may_be(*FINAL):
            counts = [each.count for each in self.deliveries]
            yield Rule.ENDED_WITHOUT_REASON, f"delivered as {counts}, lost: {len(self._lost)}"

    def _values(self, log: Mapping[Place, bytes]) -> Found:
        wanted = log.get(self.place)
        for seen in (*self.deliveries, *self.letters):
            if wanted is None or (seen.value is not None and seen.value != wanted):
                yield Rule.ALTERED, f"{seen}, the log has {wanted!r}"

    def _queue(self, is_ended: bool, log: Mapping[Place, bytes]) -> Found:
        is_wanted = self._settings.has_queue and is_ended and self.place in log
        if is_wanted and not self.letters and not self.may_be(Kind.ACCEPT):
            yield Rule.LETTER_MISSING, f"decisions: {self.decisions}"
        if self._settings.is_calm and len(self.letters) > 1:
            yield Rule.LETTER_DOUBLED, f"{self.letters}"

    def _has_reason(self, letter: Letter) -> bool:
        if letter.is_rejected:
            return any(
                about is not None
                and about.count == letter.count
                and decision.kind is Kind.REJECT
                and decision.result is not Result.REFUSED
                for decision in self.decisions
                for about in [self._delivery_of(decision)]
            )
        others = [each for each in self.deliveries if not self._is_surely_accepted(each)]
        return letter.count == self._settings.limit and self._may_reach(letter.count, others)

    def _is_surely_accepted(self, delivery: Delivery) -> bool:
        """Whether an accept certainly took effect: after the end of the lock, an acknowledgement of an archived record
        succeeds, too.
        """
        return any(
            each.kind is Kind.ACCEPT
            and each.result is Result.CONFIRMED
            and each.received <= self._lock_end(delivery, each.sent)
            for each in self._decisions_on(delivery)
        )


def _keeps_lock(decision: Decision) -> bool:
    """Whether the member holds the record after this decision as before it."""
    return decision.kind is Kind.RENEW and decision.result is Result.CONFIRMED
