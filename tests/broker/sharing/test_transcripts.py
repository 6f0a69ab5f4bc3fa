"""The life of records in flight as transcripts (`testdata/*.txt`).

Commands: `begin`, `acquire`, `acknowledge`, `release`, `stored`, `failed`, `advance`, `log-start`. A change stays open
until `stored` or `failed`. Each step prints its result, then the position and the records in flight.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.sharing.driver import Driver, states
from tests.datadriven import Step, check_transcript
from trimaran.broker.sharing.acknowledging import DeliveryChange
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

    def handle(self, step: Step) -> str:
        method = getattr(self, f"do_{step.command.replace('-', '_')}")
        try:
            lines = method(**step.args) or []
        except KafkaError as error:
            lines = [f"refused: {error.code.name}"]
        partition = self.share.partition
        lines.append(f"start {partition.start}, end {partition.end}")
        return "\n".join(lines + [self.line(run) for run in self.share.shown()])

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

    def do_acquire(self, log, at=None, member="m", most="500", exact="no", aborted=""):
        found = self.share.acquire(
            *bounds(log),
            at=None if at is None else int(at),
            member=member,
            most=int(most),
            exact=exact == "yes",
            aborted=bounds(aborted) if aborted else (),
        )
        return [f"acquired {first}-{last}, delivery {n}" for first, last, n in found] or ["nothing"]

    def do_acknowledge(self, records, types, member="m"):
        given = [AcknowledgeType[name.upper()] for name in types.split(",")]
        first, last = bounds(records)[0]
        return self._opened(self.share.decide((first, last, given), member=member))

    def do_release(self, member="m"):
        share = self.share
        return self._opened(share.partition.release(member, share.rules, share.now))

    def do_advance(self, seconds):
        share = self.share
        share.now += float(seconds)
        return self._opened(share.partition.end_locks(share.rules, share.now))

    def do_stored(self):
        self.share.finish(self.open.pop(0))

    def do_failed(self):
        self.share.finish(self.open.pop(0), is_stored=False)

    def do_log_start(self, at):
        self.share.partition.begin_at(int(at))

    def _opened(self, change):
        if change.batches:
            self.open.append(change)
        return [
            f"to store {self.line((b.first_offset, b.last_offset, b.state.name, b.delivery_count))}"
            for b in change.batches
        ] + [f"dead letters: {letters.cause.value}" for letters in change.dead_letters]


@pytest.mark.parametrize("path", sorted(TESTDATA.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path):
    check_transcript(path, Interpreter().handle)
