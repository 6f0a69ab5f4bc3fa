"""States, fencing and time of transactional ids as transcripts (`testdata/*.txt`).

Commands: `init`, `add`, `verify`, `end`, `markers`, `advance`, `reload`, `epoch` (restarts the transcript's id with a
producer of that epoch), `limits`, `wait`. A producer is written `id/epoch`; ids count from 0. The result of a command
is printed, then the state if it has changed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.broker.transactions.driver import WALL_CLOCK_MS, Driver
from tests.datadriven import Step, check_transcript
from trimaran.broker.transactions.limits import TransactionLimits
from trimaran.broker.transactions.transaction import Transaction
from trimaran.node.replicated.state_machine import Producer
from trimaran.wire.errors import KafkaError

TESTDATA = Path(__file__).parent / "testdata"
FIRST_ID = 1000


def producer(text):
    number, _, epoch = text.partition("/")
    return Producer(FIRST_ID + int(number), int(epoch))


def shown_producer(one):
    return f"{one.id - FIRST_ID}/{one.epoch}"


def shown(transaction):
    if transaction is None:
        return "forgotten"
    parts = [
        transaction.state.shown,
        shown_producer(Producer(transaction.producer_id, transaction.epoch)),
    ]
    parts += [f"{topic}-{index}" for topic, index in sorted(transaction.partitions)]
    if transaction.next_producer_id >= 0:
        parts.append(f"next {transaction.next_producer_id - FIRST_ID}")
    if transaction.started_ms >= 0:
        parts.append(f"since {(transaction.started_ms - WALL_CLOCK_MS) / 1000:g}")
    return " ".join(parts)


class Interpreter:
    def __init__(self):
        self.driver = Driver()
        self._seen = "forgotten"

    def handle(self, step: Step) -> str:
        method = getattr(self, f"do_{step.command}")
        try:
            lines = method(**step.args) or []
        except KafkaError as error:
            lines = [error.code.name]
        state = shown(self.driver.transaction)
        if state != self._seen:
            lines.append(f"= {state}")
            self._seen = state
        lines += [f"{token} is told" for token in self.driver.told]
        self.driver.told.clear()
        return "\n".join(lines)

    def do_limits(self, **values):
        limits = {name: int(value) for name, value in values.items()}
        self.driver = Driver(replace(TransactionLimits(), **limits))

    def do_init(self, told=None, timeout="60000"):
        decided = self.driver.init(None if told is None else producer(told), int(timeout))
        return (
            []
            if decided.state.is_prepared
            else [f"producer {shown_producer(decided.response_producer)}"]
        )

    def do_add(self, who, partitions="t-0", version="2"):
        self.driver.add(producer(who), *_partitions(partitions), version=int(version))

    def do_verify(self, who, partitions="t-0"):
        codes = self.driver.verify(producer(who), *_partitions(partitions))
        return [f"{topic}-{index} {code.name}" for (topic, index), code in sorted(codes.items())]

    def do_end(self, who, how="commit", version="2"):
        decided = self.driver.end(producer(who), is_commit=how == "commit", version=int(version))
        return [f"producer {shown_producer(decided.response_producer)}"]

    def do_markers(self):
        return [
            f"{'commit' if marker.state.shown == 'PrepareCommit' else 'abort'} "
            f"as {marker.producer_id - FIRST_ID}/{marker.epoch} to "
            f"{' '.join(f'{topic}-{index}' for topic, index in sorted(marker.partitions)) or 'nothing'}"
            for marker in self.driver.write_markers()
        ]

    def do_wait(self, who):
        self.driver.shard.await_end("x", who)
        self.driver.settle()

    def do_advance(self, seconds):
        self.driver.advance(float(seconds))

    def do_reload(self):
        self.driver.reload()

    def do_epoch(self, of, state="empty"):
        who = producer(of)
        self.driver.next_producer_id = who.id + 1
        transaction = Transaction(who.id, who.epoch, 60_000, updated_ms=self.driver.at.now_ms)
        self.driver.force(transaction)
        assert state == "empty"


def _partitions(text):
    found = []
    for word in text.strip("()").split():
        topic, _, index = word.rpartition("-")
        found.append((topic, int(index)))
    return found


@pytest.mark.parametrize("path", sorted(TESTDATA.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript_is_reproduced(path):
    check_transcript(path, Interpreter().handle)
