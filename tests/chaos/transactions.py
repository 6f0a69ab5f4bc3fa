"""`./dev chaos --transactions [RUNS]`: consume-transform-produce under kill -9, judged by read_committed readers.

A run: 3 controllers, 3 brokers; a producer fills a topic; members of one group copy it to another in transactions, of
which every tenth is aborted; a reader reads along. Every two seconds a random broker dies by SIGKILL, in runs of even
seeds a controller, too. When all are up again, everything must arrive: each acknowledged input exactly once, nothing of
an aborted transaction, and the reader must get to the end (no last stable offset is stuck). A run without a kill, a
commit or an abort counts as failed.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import outcome
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.chaos.exactly_once import ABORTED, Place, judge
from tests.chaos.run import LocalCluster, kill_and_restart

SOURCE, TARGET, GROUP = "source", "target", "copiers"
PARTITIONS = 3
COPIERS = 2
RECORDS_PER_SECOND = 150
BATCH = 50
ABORT_SHARE = 0.1
CALL_SECONDS = 20
ARRIVE_SECONDS_MAX = 120.0
THREAD_SECONDS_MAX = 90.0
# A run takes half a minute; what waits for all of the above does so no longer than this.
RUN_SECONDS_MAX = 400.0


class Task:
    """A thread; an error in it is raised by `join`."""

    def __init__(self, run: Callable[[], None]) -> None:
        self._outcome: outcome.Outcome[None] | None = None
        self._thread = threading.Thread(target=self._run, args=(run,), daemon=True)
        self._thread.start()

    def _run(self, run: Callable[[], None]) -> None:
        self._outcome = outcome.capture(run)

    def join(self) -> None:
        self._thread.join(THREAD_SECONDS_MAX)
        if self._outcome is None:
            faulthandler.dump_traceback(all_threads=True)  # which call it is that does not return
            raise AssertionError("a client does not come to its end")
        self._outcome.unwrap()


class Run:
    """What everybody in a run shares."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        self.settings = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "error_cb": lambda _e: None,
        }
        self.prng = random.Random(seed)
        self.stop_source, self.stop = threading.Event(), threading.Event()
        self.sent: list[bytes] = []
        self.acked: set[bytes] = set()
        self.along: list[tuple[Place, bytes]] = []
        self.commits = self.aborts = self.restarts = 0

    # -- the source

    def fill(self) -> None:
        producer = Producer({**self.settings, "enable.idempotence": True, "linger.ms": 5})

        def delivered(error: object, message: object) -> None:
            if error is None:
                self.acked.add(message.value())  # type: ignore[attr-defined]

        while not self.stop_source.is_set():
            value = b"%d" % len(self.sent)
            self.sent.append(value)
            partition = len(self.sent) % PARTITIONS
            producer.produce(SOURCE, value=value, partition=partition, on_delivery=delivered)
            producer.poll(1 / RECORDS_PER_SECOND)
            time.sleep(1 / RECORDS_PER_SECOND)
        producer.flush(60)

    # -- copying

    def begin_at_zero(self) -> None:
        """Commits where the group begins, so that no member has to look it up, and none may reset its position.

        librdkafka 2.16 keeps an old look-up: its answer from a broker that leads no longer has it look up again, and
        so read from the beginning what it has read already (`rd_kafka_toppar_handle_Offset`).
        """
        consumer = Consumer({**self.settings, "group.id": GROUP, "enable.auto.commit": False})
        begin = [TopicPartition(SOURCE, index, 0) for index in range(PARTITIONS)]
        consumer.commit(offsets=begin, asynchronous=False)
        consumer.close()

    def copy(self, number: int) -> None:
        """A member until the end; one that must not go on (it was fenced, say) is replaced by a new one."""
        while not self.stop.is_set():
            consumer = Consumer(
                {
                    **self.settings,
                    "group.id": GROUP,
                    "isolation.level": "read_committed",
                    "enable.auto.commit": False,
                    "auto.offset.reset": "error",
                    "session.timeout.ms": 10_000,
                }
            )
            producer = Producer(
                {
                    **self.settings,
                    "transactional.id": f"copier-{number}",
                    "transaction.timeout.ms": 15_000,
                }
            )
            try:
                producer.init_transactions(CALL_SECONDS)
                consumer.subscribe([SOURCE])
                while not self.stop.is_set():
                    self._copy_some(consumer, producer)
            except KafkaException:
                self.restarts += 1
            finally:
                consumer.close()

    def _copy_some(self, consumer: Consumer, producer: Producer) -> None:
        polled = consumer.consume(BATCH, 0.2)
        resets = [one for one in polled if _is_reset(one.error())]
        assert not resets, f"a member was told to reset its position: {resets[0].error()}"
        messages = [one for one in polled if one.error() is None]
        if not messages:
            return
        is_abort = self.prng.random() < ABORT_SHARE
        producer.begin_transaction()
        try:
            for message in messages:
                value = ABORTED + message.value() if is_abort else message.value()
                producer.produce(TARGET, value=value, partition=message.partition())
                producer.poll(0)
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()),
                consumer.consumer_group_metadata(),
                CALL_SECONDS,
            )
            if not is_abort:
                producer.commit_transaction(CALL_SECONDS)
                self.commits += 1
                return
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
        producer.abort_transaction(CALL_SECONDS)
        self.aborts += 1
        self._rewind(consumer)

    def _rewind(self, consumer: Consumer) -> None:
        """To what is committed: what was aborted comes again."""
        for where in consumer.committed(consumer.assignment(), CALL_SECONDS):
            if where.error is not None:
                raise KafkaException(where.error)
            assert where.offset >= 0, f"{where} was committed, and is not known any more"
            consumer.seek(TopicPartition(where.topic, where.partition, where.offset))

    # -- reading

    def read_along(self) -> None:
        consumer = self._reader()
        while not self.stop.is_set():
            self.along += _values(consumer)
        consumer.close()

    def read_all(self, is_whole: Callable[[dict[Place, bytes]], bool]) -> dict[Place, bytes]:
        """What is in the target, by a reader who begins when all is quiet."""
        consumer, output = self._reader(), dict[Place, bytes]()
        deadline = time.monotonic() + 30
        while not is_whole(output) and time.monotonic() < deadline:
            output.update(_values(consumer))
        for _ in range(5):  # whatever should not be there
            output.update(_values(consumer))
        consumer.close()
        return output

    def _reader(self) -> Consumer:
        consumer = Consumer(
            {
                **self.settings,
                "group.id": "readers",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        consumer.assign([TopicPartition(TARGET, index, 0) for index in range(PARTITIONS)])
        return consumer


def _is_reset(error: KafkaError | None) -> bool:
    return error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET


def _values(consumer: Consumer) -> list[tuple[Place, bytes]]:
    return [
        ((one.partition(), one.offset()), one.value())
        for one in consumer.consume(500, 0.5)
        if one.error() is None
    ]


def one_run(seed: int, data: Path) -> bool:
    """Prints what came of it; whether it is as it must be."""
    began = time.monotonic()
    cluster, kills = LocalCluster(data), dict[str, int]()
    try:
        for topic in (SOURCE, TARGET):
            cluster.run("topics", "create", topic, "-p", str(PARTITIONS), "-r", "3")
        run = Run(cluster.bootstrap, seed)
        run.begin_at_zero()
        source = Task(run.fill)
        copiers = [Task(lambda n=n: run.copy(n)) for n in range(COPIERS)]  # type: ignore[misc]
        reader = Task(run.read_along)
        roles = ("broker",) if seed % 2 else ("broker", "controller")
        kill_and_restart(cluster, random.Random(seed), kills, *roles)
        run.stop_source.set()
        source.join()
        deadline = time.monotonic() + ARRIVE_SECONDS_MAX
        while time.monotonic() < deadline:
            if run.acked <= {value for _, value in list(run.along)}:
                break
            time.sleep(0.5)
        settled = time.monotonic() - deadline + ARRIVE_SECONDS_MAX
        run.stop.set()
        for task in (*copiers, reader):
            task.join()
        output = run.read_all(lambda found: run.acked <= set(found.values()))
        verdict = judge(run.sent, run.acked, output, run.along)
        is_ok = verdict.ok and min(sum(kills.values()), run.commits, run.aborts) > 0
        killed = " ".join(f"{role}s {count}" for role, count in sorted(kills.items()))
        print(
            f"seed {seed}: {'ok' if is_ok else 'FAILED'}  killed {killed}  inputs {len(run.acked)}  "
            f"commits {run.commits}  aborts {run.aborts}  members anew {run.restarts}  "
            f"{verdict}  arrived after {settled:.1f} s  "
            f"({time.monotonic() - began:.0f} s)",
            flush=True,
        )
    finally:
        cluster.run("down", check=False)
    if is_ok:
        shutil.rmtree(data, ignore_errors=True)
    else:
        print(f"its data: {data}")
    return is_ok


def command_of(seed: int, data: Path) -> list[str]:
    """What plays one run."""
    program = [sys.executable, "-m", "tests.chaos.transactions", "1"]
    return [*program, "--seed", str(seed), "--data", str(data)]


def counted_run(seed: int) -> bool:
    """As `one_run`, in a process of its own; what cannot be judged is a failed run, and those after it take place.

    librdkafka 2.16 may lock itself out when OffsetForLeaderEpoch is answered with an error
    (`rd_kafka_toppar_handle_OffsetForLeaderEpoch` waits for a lock under another), and all of Python with it.
    """
    data = Path(tempfile.mkdtemp(prefix=f"transactions-{seed}-"))
    try:
        return (
            subprocess.run(command_of(seed, data), timeout=RUN_SECONDS_MAX, check=False).returncode
            == 0
        )
    except subprocess.TimeoutExpired:
        print(f"seed {seed}: FAILED  not at its end after {RUN_SECONDS_MAX:.0f} s: a client hangs")
        down = [sys.executable, "-m", "trimaran", "down", "--data", str(data)]
        subprocess.run(down, capture_output=True, check=False)
        return False


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev chaos --transactions", description=__doc__)
    parser.add_argument("runs", type=int, nargs="?", default=5)
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("--data", type=Path, help="where one run keeps its cluster")
    options = parser.parse_args()
    if options.data is not None:
        try:
            sys.exit(not one_run(options.seed, options.data))
        except (AssertionError, KafkaException) as error:
            print(f"seed {options.seed}: FAILED  {error}", flush=True)
            # Threads of clients that hang would keep the process.
            os._exit(1)
    outcomes = [counted_run(options.seed + number) for number in range(options.runs)]
    print(f"{sum(outcomes)} of {len(outcomes)} runs ok")
    sys.exit(not all(outcomes))


if __name__ == "__main__":
    main()
