"""The output of programs about a cluster: `answers/` has the output for Apache Kafka, with which ours is compared."""

from __future__ import annotations

import contextlib
import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic

from tests.interop.controllers import Controllers
from tests.interop.suites.clusters import BROKERS, cluster
from tests.librdkafka import AdminClient, Consumer, Producer

FOLDER = Path(__file__).parent / "answers"
TOPIC, RECORDS, COMMITTED = "orders", 120, 10
FIRST, SECOND, THIRD = BROKERS
REPLICAS = [[FIRST, SECOND, THIRD], [SECOND, THIRD, FIRST], [THIRD, FIRST, SECOND]]
# Values that differ from one cluster to the next.
MASKS = (
    (r"\s+", " "),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID"),
    (r"\b(?!0{32})[0-9a-f]{32}\b|(?<![\w/-])[\w-]{22}(?=[\s\"]|$)", "ID"),
    (r"\b1[6-9]\d{11}\b", "MILLISECONDS"),
    (r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| ?[+-]\d\d:?\d\d)?( UTC)?", "TIME"),
    (r"\d+ MILLISECONDS MILLISECONDS$", "OFFSET"),
    (r"(?<=high-watermark )\d+", "OFFSET"),
    # Any broker may be a client's controller, or a group's coordinator.
    (r"(?<=\(from broker )[^)]*", "BROKER"),
    (r" \(controller\)$", ""),
    (r"(?<=CONTROLLER: )\d+", "BROKER"),
    (r"(?<=COORDINATOR )\d+", "BROKER"),
    (r"^\d+(?= +(classic|modern|idle|missing|writer)\b)", "BROKER"),
    (r"^(\d+)\*", r"\1"),
    (r'(?<="broker":)\d+', "BROKER"),
    # Warnings of librdkafka, which then retries.
    (r"^%4\|.*", ""),
    (r"-{2,}", "--"),
)
# ACLs that a program creates exclude all other clients, including the brokers.
SETTINGS = {"super.users": "User:ANONYMOUS"}
Said = Mapping[str, list[str]]


@dataclass(frozen=True)
class Program:
    """A suite of one program on the PATH; `ask` returns its output by question, for the chosen questions."""

    NAME: str
    VERSION: str
    program: str
    ask: Callable[[Controllers, Path, Iterable[str]], Said]
    STARTS_NODES = True

    @property
    def NEEDS(self) -> tuple[str, ...]:  # noqa: N802 - as the suites' own
        return (self.program,)

    def run(self, kind: str, work: Path, only: Iterable[str] = ()) -> dict[str, str]:
        nodes = work / "nodes"
        nodes.mkdir()
        with cluster(kind, nodes, SETTINGS) as found, groups(found.bootstrap(*BROKERS)):
            said = {
                asked: masked(lines, found, work)
                for asked, lines in self.ask(found, work, tuple(only)).items()
            }
        if kind == "kafka":
            return _keep(self.NAME, said)
        return _compare(self.NAME, said, work / "differences.txt")


@contextlib.contextmanager
def groups(bootstrap: str) -> Iterator[None]:
    """Creates a topic, and three groups: `classic` (with a static member) and `modern` (KIP-848) have read the topic,
    and `idle` has an offset in one partition. The members stay in their groups until the end of the block. The
    transactional id `writer` exists, without a transaction.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    # Creates the transactions topic, without which the first lookup of a coordinator fails.
    Producer({"bootstrap.servers": bootstrap, "transactional.id": "writer"}).init_transactions(60)
    topic = NewTopic(TOPIC, len(REPLICAS), replica_assignment=REPLICAS)
    for created in admin.create_topics([topic]).values():
        created.result()
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(TOPIC, b"%d" % number, partition=number % len(REPLICAS))
    assert producer.flush(60) == 0
    with contextlib.ExitStack() as stack:
        for group, options in (
            ("classic", {"group.instance.id": "instance-1"}),
            ("modern", {"group.protocol": "consumer"}),
        ):
            stack.enter_context(_member(bootstrap, group, options))
        _commit_one(bootstrap)
        yield


@contextlib.contextmanager
def _member(bootstrap: str, group: str, options: Mapping[str, str]) -> Iterator[None]:
    settings = {
        "bootstrap.servers": bootstrap,
        "client.id": f"client-{group}",
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    consumer = Consumer(settings | options)
    with contextlib.closing(consumer):
        consumer.subscribe([TOPIC])
        assert len(consumer.consume(RECORDS, timeout=60)) == RECORDS
        consumer.commit(asynchronous=False)
        yield


def _commit_one(bootstrap: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "idle"})
    with contextlib.closing(consumer):
        offset = TopicPartition(TOPIC, 0, COMMITTED)
        consumer.commit(offsets=[offset], asynchronous=False)


def masked(lines: Iterable[str], nodes: Controllers, work: Path) -> list[str]:
    """Returns the sorted lines, without values that differ from one cluster to the next."""
    found = []
    for line in lines:
        for i, port in nodes.ports.items():
            line = re.sub(rf"\b{port}\b", f"PORT-{i}", line)
        line = line.replace(str(work), "WORK")
        for pattern, instead in MASKS:
            line = re.sub(pattern, instead, line)
        found.append(line.strip())
    return sorted(line for line in found if line)


def _load(name: str) -> dict[str, list[str]]:
    file = FOLDER / f"{name}.json"
    return json.loads(file.read_text()) if file.exists() else {}


def _keep(name: str, said: Said) -> dict[str, str]:
    FOLDER.mkdir(exist_ok=True)
    kept = json.dumps(_load(name) | said, indent=1, sort_keys=True, ensure_ascii=False)
    (FOLDER / f"{name}.json").write_text(kept + "\n")
    return dict.fromkeys(said, "passed")


def _compare(name: str, said: Said, differences: Path) -> dict[str, str]:
    kept = _load(name)
    unlike = {asked: lines for asked, lines in said.items() if kept.get(asked) != lines}
    lines: list[str] = []
    for asked, ours in unlike.items():
        theirs = kept.get(asked, [])
        lines += [asked, *difflib.unified_diff(theirs, ours, "Kafka", "ours", n=0, lineterm=""), ""]
    differences.write_text("\n".join(lines))
    return {asked: "failed" if asked in unlike else "passed" for asked in said}
