"""Feeds the rules of `tests.share_history` with the observations of members. The simulation observes each step of a
leader immediately, even if the response is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from tests.share_history import (
    Breach,
    Decision,
    Delivery,
    Kind,
    Left,
    Letter,
    Observed,
    Place,
    Record,
    Result,
    Settings,
)
from tests.simulation.shares.rules import STEADY
from tests.simulation.shares.states import Life
from trimaran.wire.identity import SharePartitionKey

Require = Callable[..., None]
FIRST_LIFE = (0, 0)


class SharePlace(NamedTuple):
    """A share partition in one life of its state. Members notice only a life that an operator has begun: if the group
    coordinator initializes a state again, no accepted record is delivered again.
    """

    key: SharePartitionKey
    life: Life

    @classmethod
    def of(cls, key: SharePartitionKey, life: Life) -> SharePlace:
        return cls(key, FIRST_LIFE if key.group_id == STEADY else life)


class Lease(NamedTuple):
    """The time during which a leader has a state in memory; each lease has a different number."""

    place: SharePlace
    number: int


class Members:
    """The observations of all members; `now` is the time."""

    def __init__(self, require: Require, settings: Settings, now: Callable[[], float]) -> None:
        self._require = require
        self._now = now
        self._observed = Observed(settings)
        self._starts: dict[SharePlace, int] = {}

    def record(self, place: SharePlace, offset: int) -> Record:
        return self._observed[Place(place, offset)]

    def lives(self, group_id: str, partition: int) -> list[SharePlace]:
        """Returns the observed lives of a share partition, in order."""
        found = dict.fromkeys(
            place.partition
            for place in self._observed.records
            if isinstance(place.partition, SharePlace)
        )
        return [
            each for each in found if (each[0].group_id, each[0].partition) == (group_id, partition)
        ]

    def start(self, place: SharePlace) -> int:
        """Returns the offset below which records need not be delivered."""
        return self._starts.get(place, 0)

    def starts_at(self, place: SharePlace, offset: int) -> None:
        """Notes that records below `offset` need not be delivered any more: they are deleted or were skipped."""
        self._starts[place] = max(offset, self.start(place))

    # -- steps of leaders

    def acquires(self, lease: Lease, member: str, offsets: Iterable[int], count: int) -> None:
        """Notes that a member has received records with a delivery count. Checks Q1, Q2 and Q3."""
        now = self._now()
        for offset in offsets:
            record = self.record(lease.place, offset)
            delivery = Delivery(member, record.place, count, now, now, term=lease.number)
            record.deliveries.append(delivery)
            self._judge(record.judged_delivery(delivery), "Q1", "Q2", "Q3")

    def asks(self, lease: Lease, member: str, kinds: Mapping[int, int]) -> list[Decision]:
        """Notes a request when it arrives: from now on, its decisions may be stored."""
        decisions = []
        for offset, kind in kinds.items():
            record = self.record(lease.place, offset)
            decision = Decision(
                *(member, record.place, Kind(kind), Result.UNKNOWN, self._now()), term=lease.number
            )
            record.decisions.append(decision)
            decisions.append(decision)
        return decisions

    def answered(self, decisions: Iterable[Decision], result: Result) -> None:
        """Notes the response to decisions. Checks Q4. An acknowledgement below the start succeeds without an effect."""
        for decision in decisions:
            record = self._observed[decision.place]
            if result is Result.REFUSED or decision.place.offset >= self.start(
                decision.place.partition  # type: ignore[arg-type]
            ):
                answered = record.answered(decision, result, self._now())
                self._judge(record.judged_decision(answered), "Q4")

    def session_ends(self, lease: Lease, member: str) -> None:
        """Notes that all locks of a member may end from now on."""
        self._observed.left(Left(member, lease.place, self._now()))

    # -- dead letters

    def letter(self, group_id: str, letter: Letter) -> None:
        """Notes a letter. It does not name the life of its state, so any life may be its cause. Checks Q9."""
        partition, offset = letter.place
        records = [self.record(life, offset) for life in self.lives(group_id, partition)]  # type: ignore[arg-type]
        found = [list(record.judged_letter(letter)) for record in records]
        self._require(bool(found), "Q9", group_id, letter, "is about no record")
        self._judge(min(found, key=len), "Q9")
        for record in records:
            record.letters.append(letter)

    # -- the end

    def check_complete(self, place: SharePlace, offsets: Iterable[int]) -> None:
        """Checks at the end Q5 and Q9."""
        for offset in offsets:
            record = self.record(place, offset)
            self._judge(record.judged_end(is_ended=True, log={record.place: b""}), "Q5", "Q9")

    def _judge(self, breaches: Iterable[Breach], *rules: str) -> None:
        for breach in breaches:
            self._require(False, breach.rule.id, breach)
        for rule in rules:
            self._require(True, rule)
