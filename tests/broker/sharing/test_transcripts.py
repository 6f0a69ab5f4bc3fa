"""The life of records in flight as transcripts (`testdata/*.txt`).

Commands: `begin`, `acquire`, `acknowledge`, `release`, `stored`, `failed`, `advance`, `deliver` (the dead-letter queue
has the records of a stored change), `log-start`. A change stays open until `stored` or `failed`. Each step prints its
result, then the position and the records in flight.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.sharing.driver import Driver, states
from tests.datadriven import Step, check_transcript
from trimaran.broker.sharing.acknowledging import DeadLetters, DeliveryChange, as_letters
from trimaran.broker.sharing.rules import AcknowledgeType
from trimaran.wire.errors import KafkaError

TESTDATA = Path(__file__).parent / "testdata"


def bounds(text):
    """Returns the pairs of `0-9,10-19`."""
    return [tuple(map(int, part.split("-"))) for part in text.split(",")]


class Interpreter:
    def __init__(self) -> None:
        self.share = Driver()
        self.open: list[DeliveryChange] = []
        self.letters: list[DeadLetters] = []

    def handle(self, step: Step) -> str:
        method = getattr(self, f"do_{step.command.replace('-', '_')}")
        try:
            lines = method(**step.args) or []
        except KafkaError as error:
            lines = [f"refused: {error.code.name}"]
        partition = self.share.partition
        lines.append(f"start {partition.start}, end {partition.end}{self.outlook()}")
        return "\n".join(lines + [self.line(run) for run in self.share.shown()])

    def outlook(self):
        """Returns what the next fetch, write and timer would see."""
        partition = self.share.partition
        can = "" if partition.can_acquire(self.share.rules) else " (no room)"
        done = partition.summary().delivery_complete_count
        lock = partition.next_deadline
        return (
            f", next {partition.next_fetch_offset()}{can}"
            + (f", done {done}" if done else "")
            + (f", lock ends at {lock:g}" if lock is not None else "")
        )

    @staticmethod
    def line(run):
        first, last, state, deliveries = run
        return f"  {first}-{last} {state.lower()} {deliveries}"

    def do_begin(self, at="0", state="", deliveries="5", locks="2000", letters="no"):
        batches = [part.split(":") for part in state.split(",") if part]
        loaded = states(*[(*bounds(b)[0], s.upper(), int(n)) for b, s, n in batches])
        self.share = Driver(
            int(at),
            loaded,
            deliveries_max=int(deliveries),
            record_locks_max=int(locks),
            dead_letters=letters == "yes",
        )
        self.open = []
        resumed = self.share.partition.resumed
        self.letters = [as_letters(batch, int(deliveries)) for batch in resumed]
        return self._told(self.letters)

    def do_acquire(self, log, at=None, member="m", most="500", size="500", exact="no", aborted=""):
        found = self.share.acquire(
            *bounds(log),
            at=None if at is None else int(at),
            member=member,
            most=int(most),
            size=int(size),
            exact=exact == "yes",
            aborted=bounds(aborted) if aborted else (),
        )
        return [f"acquired {first}-{last}, delivery {n}" for first, last, n in found] or ["nothing"]

    def do_acknowledge(self, records, types, member="m"):
        given = [AcknowledgeType[name.upper()] for name in types.split(",")]
        first, last = bounds(records)[0]
        return self._opened(self.share.decide((first, last, given), member=member))

    def do_release(self, member="m"):
        return self._opened(self.share.releasing(member))

    def do_advance(self, seconds):
        share = self.share
        share.now += float(seconds)
        return self._opened(share.partition.end_locks(share.rules, share.now))

    def do_stored(self):
        change = self.open.pop(0)
        self.letters += change.dead_letters
        self.share.finish(change)

    def do_failed(self):
        self.share.finish(self.open.pop(0), is_stored=False)

    def do_deliver(self):
        letters, self.letters = self.letters, []
        return self._opened(self.share.partition.archived(letters))

    def do_log_start(self, at):
        self.share.partition.begin_at(int(at))

    def _opened(self, change):
        if change.batches:
            self.open.append(change)
        return [
            f"to store {self.line((b.first_offset, b.last_offset, b.state.name, b.delivery_count))}"
            for b in change.batches
        ] + self._told(change.dead_letters)

    @staticmethod
    def _told(letters):
        return [
            f"dead letters {each.batch.first_offset}-{each.batch.last_offset}: {each.cause.value}"
            for each in letters
        ]


@pytest.mark.parametrize("path", sorted(TESTDATA.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript_is_reproduced(path):
    check_transcript(path, Interpreter().handle)
