"""Consume-transform-produce in threads: one fills a topic, others copy it in transactions, and one reads along."""

from __future__ import annotations

import faulthandler
import random
import threading
import time
from collections.abc import Callable
from functools import partial

import outcome
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.chaos.exactly_once import ABORTED, Place

SOURCE, TARGET, GROUP = "source", "target", "copiers"
PARTITIONS = 3
COPIERS = 2
RECORDS_PER_SECOND = 150
BATCH = 50
ABORT_SHARE = 0.1
CALL_SECONDS = 20
# A call with a timeout of CALL_SECONDS that takes longer than this never returns (librdkafka's issues 5456 and 5511).
HANG_SECONDS = 2.0 * CALL_SECONDS
THREAD_SECONDS_MAX = 90.0


class ClientHangs(Exception):
    """Raised if a client's call does not return, although each has a deadline."""


class Task:
    """A thread; `join` raises the thread's error, or ClientHangs."""

    def __init__(self, run: Callable[[], None]) -> None:
        self._outcome: outcome.Outcome[None] | None = None
        self._thread = threading.Thread(target=self._run, args=(run,), daemon=True)
        self._thread.start()

    def _run(self, run: Callable[[], None]) -> None:
        self._outcome = outcome.capture(run)

    def join(self, seconds: float = THREAD_SECONDS_MAX) -> None:
        self._thread.join(seconds)
        if self._outcome is None:
            faulthandler.dump_traceback(all_threads=True)  # shows the call that does not return
            raise ClientHangs("a client does not come to its end")
        self._outcome.unwrap()


class Run:
    """The shared state of a run."""

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
        self.commits = self.aborts = self.restarts = self.hangs = 0

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
        """Commits the group's first offsets, so that no member looks them up or resets its position. In librdkafka 2.16
        an outdated lookup survives: after the response of a former leader the client repeats the lookup, and then reads
        again from the beginning (`rd_kafka_toppar_handle_Offset`).
        """
        consumer = Consumer({**self.settings, "group.id": GROUP, "enable.auto.commit": False})
        begin = [TopicPartition(SOURCE, index, 0) for index in range(PARTITIONS)]
        deadline = time.monotonic() + CALL_SECONDS
        while not _commit(consumer, begin):
            if time.monotonic() > deadline:
                raise AssertionError("the group's coordinator is not found")
        consumer.close()

    def copy(self, number: int) -> None:
        """Runs a member until the end; a member that must not continue, for example because it was fenced, is replaced.
        If a producer's call does not return, the replacement has the same transactional id.
        """
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
            except ClientHangs:
                self.hangs += 1
            finally:
                consumer.close()

    def _copy_some(self, consumer: Consumer, producer: Producer) -> None:
        polled = consumer.consume(BATCH, 0.2)
        resets = [result for result in polled if _is_reset(result.error())]
        assert not resets, f"a member was told to reset its position: {resets[0].error()}"
        messages = [result for result in polled if result.error() is None]
        if not messages:
            return
        is_abort = self.prng.random() < ABORT_SHARE
        producer.begin_transaction()
        try:
            for message in messages:
                value = ABORTED + message.value() if is_abort else message.value()
                producer.produce(TARGET, value=value, partition=message.partition())
                producer.poll(0)
            positions = consumer.position(consumer.assignment())
            member = consumer.consumer_group_metadata()
            send = partial(producer.send_offsets_to_transaction, positions, member, CALL_SECONDS)
            Task(send).join(HANG_SECONDS)
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
        """Seeks to the committed offsets, so that aborted input is read again."""
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
        """Returns the content of the target, read by a new consumer after all activity has stopped."""
        consumer, output = self._reader(), dict[Place, bytes]()
        deadline = time.monotonic() + 30
        while not is_whole(output) and time.monotonic() < deadline:
            output.update(_values(consumer))
        for _ in range(5):  # also finds surplus values
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


def _commit(consumer: Consumer, offsets: list[TopicPartition]) -> bool:
    """Commits offsets; returns False while the coordinator's topic is being created, as the client does not retry."""
    try:
        consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() not in (KafkaError.NOT_COORDINATOR, KafkaError._WAIT_COORD):
            raise
        time.sleep(0.1)
        return False
    return True


def _is_reset(error: KafkaError | None) -> bool:
    return error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET


def _values(consumer: Consumer) -> list[tuple[Place, bytes]]:
    return [
        ((result.partition(), result.offset()), result.value())
        for result in consumer.consume(500, 0.5)
        if result.error() is None
    ]
