"""A rule at work: its counters, and whether it applies to the request that it has just matched."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from trimaran.faults.observations import ObservationLog, RuleCounters
from trimaran.faults.rules import FaultRule


@dataclass(slots=True)
class RuleState:
    """The counters of a rule. Random decisions depend only on the seed, the name of the rule and the number of the
    match, so other rules and other threads do not change them.
    """

    rule: FaultRule
    seed: int
    added_at: float
    counters: RuleCounters = field(default_factory=RuleCounters)
    seen: ObservationLog = field(default_factory=ObservationLog)
    _connections: set[int] = field(default_factory=set)

    def is_spent(self, now: float) -> bool:
        """Whether the rule can never apply again."""
        times, until = self.rule.times, self.rule.schedule.until
        if until is not None and now - self.added_at > until:
            return True
        return times is not None and self.counters.applied >= times

    def matched(self, connection: int, now: float) -> Random | None:
        """Counts a match; returns the source of random numbers for it if the rule applies, otherwise None."""
        schedule = self.rule.schedule
        self.counters.matched += 1
        number = self.counters.matched - schedule.after
        random = Random(f"{self.seed}/{self.rule.name}/{self.counters.matched}")
        applies = (
            not self.is_spent(now)
            and number > 0
            and (number - 1) % schedule.every == 0
            and not (schedule.once_per_connection and connection in self._connections)
            and (schedule.probability >= 1 or random.random() < schedule.probability)
        )
        if not applies:
            return None
        self.counters.applied += 1
        if schedule.once_per_connection:
            self._connections.add(connection)
        return random

    def reset(self, now: float) -> None:
        """Begins again, as if the rule had just been added."""
        self.counters = RuleCounters()
        self.seen.clear()
        self._connections.clear()
        self.added_at = now
