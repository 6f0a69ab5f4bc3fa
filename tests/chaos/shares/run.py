"""One run of `./dev chaos --shares`: a cluster, a share group with a dead-letter queue, faults, and the judged history.

Members read two partitions from all brokers, and accept, release, reject, renew or ignore each record. Once all faults
have ended, the group must finish every record. A run without a fault, a letter or a delivery counts as failed. The
environment variable `CHAOS_SECONDS` sets how long faults are injected.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Hashable, Iterator
from pathlib import Path

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.shares.leaders import Leaders, Reigns
from tests.chaos.shares.member import GROUP, LIMIT, LOCK_SECONDS, TOPIC, ShareMember
from tests.chaos.transactions.clusters import BROKERS, CONTROLLERS, Cluster, ours
from tests.chaos.transactions.copying import Task
from tests.chaos.transactions.faults import CUT, KILL, MOVE, PAUSE, Faults
from tests.cluster.processes import until
from tests.share_history import (
    Breach,
    Ending,
    History,
    Kind,
    Place,
    Result,
    Rule,
    Settings,
    judge,
    letter_of,
    told,
)
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.client.destinations import CoordinatorNode
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut
from trimaran.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from trimaran.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

QUEUE = "dlq.shared"
PARTITIONS, MEMBERS = 2, 4
RECORDS_PER_SECOND = 100
FAULTS_SECONDS = float(os.environ.get("CHAOS_SECONDS", "40"))
FIRST_SECONDS_MAX = 60.0
DRAIN_SECONDS_MAX = 120.0
READ_SECONDS_MAX = 60.0
WEIGHTS = {KILL: 5, PAUSE: 2, CUT: 3, MOVE: 2}
GROUP_RESOURCE, SET = 32, 0
SETTINGS = (
    f"group.share.record.lock.duration.ms={LOCK_SECONDS * 1000:.0f}",
    "group.share.min.record.lock.duration.ms=1000",
    f"group.share.delivery.count.limit={LIMIT}",
    "group.share.heartbeat.interval.ms=1000",
    "group.share.min.heartbeat.interval.ms=1000",
    "share.coordinator.state.topic.num.partitions=3",
    "offsets.topic.num.partitions=3",
)


class Run:
    """The clients of a run, and their observations."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        self.bootstrap, self.seed = bootstrap, seed
        self.history, self.leaders = History(), Leaders(bootstrap, TOPIC)
        self.members = [
            ShareMember(f"member-{number}", seed, self.leaders, self.history)
            for number in range(MEMBERS)
        ]
        self.stop_source, self.stop = threading.Event(), threading.Event()
        self.settings = {"bootstrap.servers": bootstrap, "log_level": 0, "error_cb": lambda _: None}

    # -- the topics, and the records

    def prepare(self) -> None:
        """Creates the topic and the queue, and lets the group begin at offset 0."""
        configs = {"errors.deadletterqueue.group.enable": "true", "min.insync.replicas": "1"}
        topics = [
            NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "1"}),
            NewTopic(QUEUE, PARTITIONS, 3, config=configs),
        ]
        admin = AdminClient(dict(self.settings))
        for created in admin.create_topics(topics).values():
            created.result()
        values = {
            "share.auto.offset.reset": "earliest",
            "errors.deadletterqueue.topic.name": QUEUE,
            "errors.deadletterqueue.copy.record.enable": "true" if self.seed % 2 else "false",
        }
        wanted = [
            AlterableConfig(name=name, config_operation=SET, value=value)
            for name, value in values.items()
        ]
        resource = AlterConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name=GROUP, configs=wanted
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        with BlockingClient(self.bootstrap) as client:
            answer = client.call(None, request)
        assert not any(each.error_code for each in answer.responses), answer

        def has_leaders() -> bool:
            self.leaders.look()
            return sum(len(self.leaders.of(node)) for node in BROKERS) == PARTITIONS

        until(has_leaders, "a leader of each partition", FIRST_SECONDS_MAX)

    def fill(self) -> None:
        """Produces until the run stops it."""
        producer = Producer({**self.settings, "enable.idempotence": True, "linger.ms": 20})
        number = 0
        while not self.stop_source.is_set():
            producer.produce(TOPIC, value=b"%d" % number, partition=number % PARTITIONS)
            number += 1
            producer.poll(0)
            time.sleep(1 / RECORDS_PER_SECOND)
        producer.flush(60)

    def read_all(self, topic: str) -> Iterator[Message]:
        """Yields the records of a topic up to its end. Raises AssertionError if that takes too long."""
        consumer = Consumer({**self.settings, "group.id": "readers", "enable.auto.commit": False})
        places = [TopicPartition(topic, index, 0) for index in range(PARTITIONS)]
        ends = [consumer.get_watermark_offsets(place, READ_SECONDS_MAX)[1] for place in places]
        consumer.assign(places)
        deadline = time.monotonic() + READ_SECONDS_MAX
        while [place.offset for place in places] != ends:
            assert time.monotonic() < deadline, f"{topic} cannot be read to {ends}"
            for message in consumer.consume(500, 0.2):
                if message.error() is None:
                    places[message.partition()].offset = message.offset() + 1
                    yield message
        consumer.close()

    # -- the group

    def share(self, cluster: Cluster) -> list[Task]:
        """Starts the group's members, and the observation of the leaders."""
        tasks = [Task(lambda: self.leaders.watch(self.stop))]
        for member in self.members:
            tasks.append(Task(lambda m=member: m.beat(self.bootstrap, self.stop)))  # type: ignore[misc]
            for node in BROKERS:
                address = cluster.doors[node].address
                tasks.append(Task(lambda m=member, n=node, a=address: m.read(n, a, self.stop)))  # type: ignore[misc]
        return tasks

    def positions(self) -> dict[int, tuple[int, int]]:
        """Returns the group's start offset and lag in each partition, for those partitions that its coordinator
        returns.
        """
        topics = [
            DescribeShareGroupOffsetsRequestTopic(
                topic_name=TOPIC, partitions=list(range(PARTITIONS))
            )
        ]
        group = DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=topics)
        try:
            with BlockingClient(self.bootstrap) as client:
                answer = client.call(
                    CoordinatorNode(GROUP),
                    DescribeShareGroupOffsetsRequest(groups=[group]),
                    timeout=10,
                )
        except (ConnectionLost, RequestTimedOut):
            return {}
        return {
            found.partition_index: (found.start_offset, found.lag)
            for each in answer.groups
            for topic in each.topics
            for found in topic.partitions
            if not found.error_code
        }


def play(seed: int, data: Path) -> tuple[bool, str]:
    """Plays one run; returns whether it is correct, and a description of its outcome. Raises ClientHangs,
    KafkaException or AssertionError if the run has no valid outcome.
    """
    with ours(data, *SETTINGS) as cluster:
        return _play(cluster, seed)


def _play(cluster: Cluster, seed: int) -> tuple[bool, str]:
    run, faults = Run(cluster.bootstrap, seed), Faults(cluster, seed, WEIGHTS)
    run.prepare()
    source, members = Task(run.fill), run.share(cluster)
    until(lambda: run.history.deliveries, "a first delivery", FIRST_SECONDS_MAX)
    faults.play(FAULTS_SECONDS)
    healed = time.monotonic()
    run.stop_source.set()
    source.join()
    log = {
        Place(message.partition(), message.offset()): message.value()
        for message in run.read_all(TOPIC)
    }
    starts = _drained(run, log, healed + DRAIN_SECONDS_MAX)
    drained = time.monotonic() - healed
    run.stop.set()
    for member in members:
        member.join()
    letters = [letter_of(each.headers() or (), each.value()) for each in run.read_all(QUEUE)]
    run.history.letters = letters
    reigns = Reigns.read(map(cluster.directory, CONTROLLERS), run.leaders.topic_id)
    history = reigns.stamped(run.history)
    breaches = judge(history, Settings(LIMIT, LOCK_SECONDS, has_queue=True), Ending.at(log, starts))
    _keep(cluster.directory(BROKERS[0]).parent, history, breaches)
    is_ok = not breaches and min(faults.count.total(), len(letters), len(history.deliveries)) > 0
    return is_ok, _text(run, faults, history, log, breaches, len(reigns), drained)


def _drained(run: Run, log: dict[Place, bytes], deadline: float) -> dict[Hashable, int]:
    """Waits until the group has finished every record, or until the deadline; returns for each partition the offset
    below which none is left.

    The stored start offset may be below records that the last write has finished; the lag does not count them.
    """
    ends = Counter(place.partition for place in log)
    found: dict[int, tuple[int, int]] = {}
    while time.monotonic() < deadline:
        found = run.positions() or found
        if len(found) == len(ends) and not any(lag for _, lag in found.values()):
            break
        time.sleep(0.5)
    return {index: start if lag else ends[index] for index, (start, lag) in found.items()}


def _text(
    run: Run,
    faults: Faults,
    history: History,
    log: dict[Place, bytes],
    breaches: list[Breach],
    reigns: int,
    drained: float,
) -> str:
    played = ", ".join(f"{count} {kind}" for kind, count in sorted(faults.count.items()))
    results = Counter(decision.result for decision in history.decisions)
    kinds = Counter(d.kind for d in history.decisions if d.result is Result.CONFIRMED)
    decided = "  ".join(f"{kind.name.lower()} {kinds[kind]}" for kind in Kind)
    errors = sum((member.errors for member in run.members), Counter[str]())
    told_errors = ", ".join(f"{name} {count}" for name, count in sorted(errors.items()) if count)
    known = sum(delivery.term is not None for delivery in history.deliveries)
    return (
        f"{played}; records {len(log)}  deliveries {len(history.deliveries)}  of a known term {known}  "
        f"stale {sum(each.is_stale for each in history.deliveries)}  lost fetches {len(history.lost)}  "
        f"leaders {reigns}  {decided}  refused {results[Result.REFUSED]}  unknown {results[Result.UNKNOWN]} "
        f"({told_errors})  "
        f"letters {len(history.letters)}  drained after {drained:.1f} s  {told(breaches)}"
    )


def _keep(folder: Path, history: History, breaches: list[Breach]) -> None:
    """Saves the observations of the records that break a rule."""
    places = {breach.place for breach in breaches}
    if any(breach.rule in Rule for breach in breaches):
        with (folder / "history.txt").open("w") as file:
            for each in (*breaches, *history.deliveries, *history.decisions, *history.letters):
                if isinstance(each, Breach) or each.place in places:
                    print(each, file=file)
            for each in (*history.lost, *history.left):
                print(each, file=file)
