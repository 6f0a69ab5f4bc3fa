"""`./dev demo [FILE]`: runs a cluster through a story, prints a line for each step, and ends with a report."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from trimaran.demo.workload import (
    Ledger,
    SteadyProducer,
    consume_as_group,
    lines_of,
    produce_all,
    read_everything,
)
from trimaran.errors.user_error import Exit, UserError

TOPIC = "demo"
PARTITIONS, REPLICATION = 6, 3
LINES = 100_000
STEADY_PER_SECOND = 2_000
RECOVERY_SECONDS_MAX = 30.0
DEFAULT_DATA = Path(".trimaran-demo")  # not .trimaran, which may contain another cluster
DEFAULT_FILE = Path(__file__).with_name("workload.py")  # a text that exists wherever the demo runs


@dataclass(slots=True)
class Story:
    """State that the steps share. `failures` decides the exit code."""

    data: Path
    file: Path
    began: float
    cluster: dict[str, Any]
    ledger: Ledger
    failures: list[str]

    @property
    def bootstrap(self) -> str:
        return str(self.cluster["bootstrap"])

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.began:5.1f} s] {text}", flush=True)  # noqa: T201

    def check(self, ok: bool, text: str) -> None:
        if not ok:
            self.failures.append(text)
        self.say(text)


def trimaran(story: Story, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs a command of trimaran as a user does."""
    command = [sys.executable, "-m", "trimaran", *words, "--data", str(story.data)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise UserError(
            f"trimaran {' '.join(words)} ended with code {done.returncode}",
            done.stderr.strip() or "it printed nothing",
            f"logs of the nodes are in {story.data}/*.log",
        )
    return done


def start_cluster(story: Story) -> None:
    if (story.data / "cluster.json").exists():
        trimaran(story, "purge", "-y")
    began = time.monotonic()
    done = trimaran(story, "up", "-d", "--zk", "-o", "json")
    story.cluster = json.loads(done.stdout)
    seconds = time.monotonic() - began
    story.say(
        f"3 controllers, 3 brokers, a ZooKeeper and its mirror are up, formatted and started in {seconds:.1f} s"
    )


def create_topic(
    story: Story, name: str = TOPIC, partitions: int = PARTITIONS, seconds_max: float = 10
) -> None:
    admin = AdminClient({"bootstrap.servers": story.bootstrap, "log_level": 2})
    futures = admin.create_topics(
        [NewTopic(name, partitions, REPLICATION)], request_timeout=seconds_max
    )
    try:
        futures[name].result(seconds_max)
    except KafkaException as error:
        # The topic is committed, but the response was lost with a controller, so the broker retried: as in Kafka, the
        # retry fails because the topic exists.
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def produce_lines(story: Story) -> None:
    create_topic(story)
    story.say(f"topic {TOPIC}: {PARTITIONS} partitions, replication factor {REPLICATION}")
    began = time.monotonic()
    produce_all(story.bootstrap, TOPIC, lines_of(story.file, LINES), story.ledger)
    seconds = time.monotonic() - began
    count = len(story.ledger.acked)
    story.check(
        count == LINES,
        f"{count:,} of {LINES:,} lines of {story.file.name} acked by all replicas in {seconds:.1f} s",
    )


def read_by_group(story: Story) -> None:
    counts = consume_as_group(story.bootstrap, TOPIC, "demo-readers", 2, LINES)
    text = f"a group of two members read {sum(counts):,} lines: {counts[0]:,} + {counts[1]:,}"
    story.check(sum(counts) == LINES and all(counts), text)


def kill_controller_then_leader(story: Story) -> None:
    lines = cycle(list(lines_of(story.file, 1_000)))
    with SteadyProducer(story.bootstrap, TOPIC, lines, STEADY_PER_SECOND) as producer:
        producer.wait_for_ack_after(0.0, RECOVERY_SECONDS_MAX)
        _kill_controller(story)
        broker = _kill_partition_leader(story, producer)
        for node in ("controller", broker):
            _restart(story, node)
    story.ledger.acked |= producer.ledger.acked
    gap = producer.ledger.longest_gap(producer.ledger.ack_times[0])
    story.check(
        not producer.ledger.failed,
        f"meanwhile {len(producer.ledger.acked):,} more lines were acked, {len(producer.ledger.failed)} refused, "
        f"the longest silence {gap:.2f} s",
    )


def _kill_controller(story: Story) -> None:
    leader = json.loads(trimaran(story, "quorum", "status", "-o", "json").stdout)["leader_id"]
    trimaran(story, "chaos", "kill", str(leader))
    killed = time.monotonic()
    create_topic(story, "after-controller-kill", 1, RECOVERY_SECONDS_MAX)
    story.say(
        f"active controller {leader} killed (-9): the next topic was created {time.monotonic() - killed:.2f} s later"
    )
    story.cluster["killed_controller"] = leader


def _kill_partition_leader(story: Story, producer: SteadyProducer) -> str:
    topic = json.loads(trimaran(story, "topics", "describe", TOPIC, "-o", "json").stdout)
    broker = str(topic["partitions"][0]["leader"])
    trimaran(story, "chaos", "kill", broker)
    killed = time.monotonic()
    trimaran(story, "topics", "describe", TOPIC, "-o", "json")
    gap = producer.wait_for_ack_after(killed, RECOVERY_SECONDS_MAX)
    story.check(
        gap is not None,
        f"broker {broker}, leader of {TOPIC}-0, killed (-9): production went on (next ack {gap or -1:.2f} s later)",
    )
    return broker


def _restart(story: Story, node: str) -> None:
    name = str(story.cluster["killed_controller"]) if node == "controller" else node
    trimaran(story, "chaos", "restart", name)


def audit(story: Story) -> None:
    try:
        records = read_everything(story.bootstrap, TOPIC, PARTITIONS)
        found = {place: zlib.crc32(value) for place, value in records}
    except TimeoutError as error:
        story.check(False, str(error))
        return
    lost = story.ledger.missing(found)
    story.check(
        lost == 0,
        f"{len(story.ledger.acked):,} lines acked, {len(found):,} read back, {lost} acked lines lost",
    )


def verify_zookeeper(story: Story) -> None:
    done = trimaran(story, "zk", "verify", check=False)
    text = (done.stdout.strip() or done.stderr.strip()).splitlines()
    story.check(done.returncode == 0, "zk verify: " + (text[-1] if text else "said nothing"))


def report(story: Story) -> None:
    target = story.data / "report"
    began = time.monotonic()
    trimaran(story, "analyze", "--html", str(target))
    story.say(
        f"trimaran analyze read the metadata log and the data logs in {time.monotonic() - began:.1f} s"
    )
    story.cluster["report"] = target / "index.html"


STEPS: tuple[Callable[[Story], None], ...] = (
    start_cluster,
    produce_lines,
    read_by_group,
    kill_controller_then_leader,
    audit,
    verify_zookeeper,
    report,
)


def tell(story: Story) -> int:
    """Runs the steps; the cluster is stopped at the end, its data stays."""
    try:
        for step in STEPS:
            step(story)
    finally:
        if (story.data / "cluster.json").exists():
            trimaran(story, "down", check=False)
    if story.failures:
        story.say("FAILED: " + "; ".join(story.failures))
        return Exit.NO
    story.say(f"report: {story.cluster['report']}")
    story.say(
        "next: open the report; trimaran up --zk starts a cluster of your own; trimaran --help lists the commands"
    )
    return Exit.OK


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m trimaran.demo", description=__doc__)
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        default=DEFAULT_FILE,
        help="a text file whose lines are produced",
    )
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA, help="where the cluster lives")
    arguments = parser.parse_args()
    if not arguments.file.is_file() or not arguments.file.read_bytes().strip():
        parser.error(f"{arguments.file} is not a text file with lines")
    story = Story(arguments.data.resolve(), arguments.file, time.monotonic(), {}, Ledger(), [])
    try:
        sys.exit(tell(story))
    except UserError as error:
        print(error, file=sys.stderr)  # noqa: T201
        sys.exit(error.exit_code)
