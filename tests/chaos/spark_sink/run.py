"""One run of `./dev chaos --spark-sink`: a cluster, a query that writes exactly once, kills, and the judgement.

Victims and moments are drawn by the seed. After the last victim, all processes of Spark are killed. Then the sink is
started once more: like the next driver, it completes the decided transactions and aborts the rest. A read_committed
consumer must see each row of each decided micro-batch once, and nothing else; Spark must not have recorded more than
that.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaError, TopicPartition

from tests.chaos.exactly_once import Place, Verdict, judge
from tests.chaos.spark_sink import processes
from tests.chaos.spark_sink.query import (
    PARTITIONS,
    PREFIX,
    ROWS,
    TOPIC,
    checkpoint_of,
    sink_options,
)
from tests.chaos.spark_sink.running_query import RunningQuery
from tests.chaos.transactions.clusters import BROKERS, Cluster, Kafka, Ours
from tests.cluster.processes import LocalCluster
from tests.interop import apache_kafka
from tests.librdkafka import Consumer
from trimaran.client.transactions import transaction_rows
from trimaran.spark.sink.exactly_once.driver import open_driver
from trimaran.spark.sink.options import SinkOptions
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.messages.find_coordinator import FindCoordinatorRequest

KILLS = 25
WORKER, EXECUTOR, DRIVER, BROKER, COORDINATOR = (
    "task worker",
    "executor",
    "driver",
    "broker",
    "coordinator",
)
# The start of a driver takes the longest.
WEIGHTS = {WORKER: 6, EXECUTOR: 3, DRIVER: 2, BROKER: 4, COORDINATOR: 5}
# The moment of a kill: within a micro-batch, when its decision is in the log, or soon after the previous kill.
WITHIN, DECIDED, SOON = "within a batch", "after a decision", "soon"
MOMENTS = {WITHIN: 3, DECIDED: 2, SOON: 1}
SOON_SECONDS_MAX = 3.0
DECISION_SECONDS_MAX = 20.0
ENDING_SECONDS_MAX = 0.1  # the time in which a driver completes the decided transactions
DOWN_SECONDS = 1.0
PART_SECONDS_MAX = 10.0
READ_SECONDS_MAX = 120.0


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run."""

    is_ok: bool
    text: str


@contextmanager
def ours(data: Path) -> Iterator[tuple[Cluster, str]]:
    with LocalCluster(data / "cluster", "--controllers", "1", "--brokers", "3") as local:
        yield Ours(local, {}, has_disks=False), local.bootstrap


@contextmanager
def kafka(data: Path) -> Iterator[tuple[Cluster, str]]:
    with apache_kafka.running(data / "cluster", brokers=len(BROKERS), heap="512m") as found:
        yield Kafka(found, {}, has_disks=False), found.bootstrap


SYSTEMS = {"ours": ours, "kafka": kafka}


class Decisions:
    """Observes the decisions of a query before they are committed."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "campaign-eye",
                "isolation.level": "read_uncommitted",
            }
        )
        self._consumer.assign([TopicPartition(f"{PREFIX}-decisions", 0, 0)])

    def wait_for_next(self) -> bool:
        """Waits until a micro-batch is being decided; returns False if there is none in time."""
        while self._consumer.poll(0) is not None:
            pass
        deadline = time.monotonic() + DECISION_SECONDS_MAX
        while (left := deadline - time.monotonic()) > 0:
            message = self._consumer.poll(left)
            if message is None or message.error():
                continue
            if json.loads(message.value())["state"] == "decided":
                return True
        return False

    def close(self) -> None:
        self._consumer.close()


class Run:
    """The query and its kills; `count` has the number of kills by victim."""

    def __init__(self, cluster: Cluster, bootstrap: str, data: Path, seed: int) -> None:
        self._cluster, self._bootstrap, self._data = cluster, bootstrap, data
        self._prng = random.Random(seed)
        self._seed = seed
        self.count: Counter[str] = Counter()
        self.errors: list[str] = []
        self._seconds: list[float] = []  # the durations of micro-batches
        self._query = self._started()
        self._decisions: Decisions | None = None

    def _started(self) -> RunningQuery:
        return RunningQuery(self._bootstrap, self._data, self._prng.randint(1, 3))

    def play(self, kills: int) -> None:
        """Kills one process after another. Raises AssertionError if the query makes no progress."""
        try:
            self._wait_for_batch()
            self._decisions = Decisions(self._bootstrap)
            while self.count.total() < kills:
                self._kill_one()
            self._wait_for_batch()
        finally:
            self._query.kill_all()
            self._keep_errors()
            if self._decisions is not None:
                self._decisions.close()

    def _keep_errors(self) -> None:
        self.errors += self._query.errors

    def _wait_for_batch(self) -> None:
        self._query.drain()
        began = time.monotonic()
        self._query.wait_for("batch")
        self._seconds.append(time.monotonic() - began)

    def _kill_one(self) -> None:
        (victim,) = self._prng.choices(list(WEIGHTS), list(WEIGHTS.values()))
        (moment,) = self._prng.choices(list(MOMENTS), list(MOMENTS.values()))
        share = self._prng.random()
        began = time.monotonic()
        if moment == SOON:
            time.sleep(SOON_SECONDS_MAX * share)
        else:
            self._wait_for_batch()
            assert self._decisions is not None
            if moment == DECIDED and self._decisions.wait_for_next():
                time.sleep(ENDING_SECONDS_MAX * share)
            else:
                moment = WITHIN
                time.sleep(1.2 * share * statistics.median(self._seconds))
        if (told := self._kill(victim)) is None:
            return
        self.count[victim] += 1
        number, took = self.count.total(), time.monotonic() - began
        line = f"seed {self._seed}, kill {number}: {victim} ({told}) {moment}, {took:.1f} s"
        print(line, file=sys.stderr, flush=True)

    def _kill(self, victim: str) -> str | None:
        """Kills the victim, and restarts it if nothing else does. Returns its name; None if the previous kill has
        already ended it.
        """
        if victim == DRIVER:
            self._query.kill_driver()
            self._keep_errors()
            self._query = self._started()
            return "JVM and Python"
        if victim in (WORKER, EXECUTOR):
            return self._kill_part(processes.workers if victim == WORKER else processes.executors)
        broker = self._prng.choice(BROKERS) if victim == BROKER else self._coordinator()
        self._cluster.kill(broker)
        time.sleep(DOWN_SECONDS)
        self._cluster.start(broker)
        return str(broker)

    def _kill_part(self, of: Callable[[Iterable[processes.Process]], list[int]]) -> str | None:
        deadline = time.monotonic() + PART_SECONDS_MAX
        share = self._prng.random()
        while not (found := of(self._query.processes())) and time.monotonic() < deadline:
            time.sleep(0.05)
        if not found:
            return None
        pid = found[int(share * len(found))]
        processes.kill([pid])
        return f"process {pid}"

    def _coordinator(self) -> int:
        """Returns the coordinator of the driver's transactions, or of those of a task."""
        with BlockingClient(self._bootstrap) as client:
            names = {row["id"] for row in transaction_rows(client, states=["Ongoing"])}
            name = self._prng.choice(sorted({f"{PREFIX}-driver"} | names))
            request = FindCoordinatorRequest(key_type=1, coordinator_keys=[name])
            [found] = client.call(None, request).coordinators
        return found.node_id if found.node_id in BROKERS else BROKERS[0]


def play(system: str, seed: int, data: Path, kills: int = KILLS) -> Outcome:
    """Plays one run. Raises AssertionError if the query makes no progress."""
    with SYSTEMS[system](data) as (cluster, bootstrap):
        run = Run(cluster, bootstrap, data, seed)
        run.play(kills)
        options = SinkOptions.parse(sink_options(bootstrap), streaming=True)
        with open_driver(options) as driver:
            begun = driver.begin()
        batches = begun.decision.batch + 1 if begun.decision else 0
        verdict = judged(bootstrap, batches)
        recorded = _recorded(data)
        left = _left_open(bootstrap)
    is_ok = verdict.ok and recorded <= batches and not left and batches > 0
    played = ", ".join(f"{count} {victim}" for victim, count in sorted(run.count.items()))
    text = (
        f"killed {played}; micro-batches {batches}, recorded by Spark {recorded}; {verdict}  left open {left}  "
        f"errors of the query {len(run.errors)}{': ' if run.errors else ''}{' | '.join(run.errors)}"
    )
    return Outcome(is_ok, text)


def judged(bootstrap: str, batches: int) -> Verdict:
    """Returns how the records of a read_committed consumer differ from the rows of this many micro-batches."""
    expected = [str(number).encode() for number in range(ROWS * batches)]
    return judge(expected, expected, read_committed(bootstrap), [])


def read_committed(bootstrap: str) -> dict[Place, bytes]:
    """Returns all committed records up to the end. Raises AssertionError if that is not reached."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "campaign-judge",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    found, left = dict[Place, bytes](), set(range(PARTITIONS))
    deadline = time.monotonic() + READ_SECONDS_MAX
    while left:
        assert time.monotonic() < deadline, (
            f"partitions {left} of {TOPIC} are not read to their ends"
        )
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            if message.error().code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            continue
        found[message.partition(), message.offset()] = message.value()
    consumer.close()
    return found


def _recorded(data: Path) -> int:
    """Returns the number of micro-batches that Spark's checkpoint calls committed."""
    commits = Path(checkpoint_of(str(data)), "commits")
    return 1 + max(
        (int(file.name) for file in commits.iterdir() if file.name.isdigit()), default=-1
    )


def _left_open(bootstrap: str) -> int:
    with BlockingClient(bootstrap) as client:
        rows = transaction_rows(client, states=["Ongoing"])
    return sum(row["id"].startswith(PREFIX) for row in rows)
