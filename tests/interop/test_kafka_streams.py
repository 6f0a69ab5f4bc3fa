"""Kafka Streams 4.3 with exactly-once v2 on 3 + 3 nodes of ours of which one after another dies by SIGKILL.

A minute by default; `./dev interop --minutes 10` for longer. Half way the application itself dies by SIGKILL, and its
directory is gone: its state comes back from the changelogs.
"""

import random
import shutil
import signal
import subprocess
import time
from collections import Counter

import pytest
from confluent_kafka import TopicPartition

from tests.cluster.processes import LocalCluster, until
from tests.interop import apache_kafka, java_programs
from tests.interop.kills import Kills, seconds_of
from tests.librdkafka import Consumer, Producer

PARTITIONS = 3
LINES_PER_SECOND = 40
WORDS = [f"w{number}" for number in range(50)]
KEYS = [f"k{number}" for number in range(20)]
# Streams aborts what its dead predecessor left open after ten seconds, a dead member is missed after as long.
ARRIVE_SECONDS_MAX = 180.0
CALL_SECONDS = 60


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if reason := java_programs.why_not():
        pytest.skip(reason)
    return java_programs.compiled("Topologies", tmp_path_factory.mktemp("classes"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with LocalCluster(tmp_path_factory.mktemp("streams")) as found:
        for topic in ("lines", "counts", "sums"):
            found.run("topics", "create", topic, "-p", str(PARTITIONS), "-r", "3")
        yield found


class Input:
    """Lines of random words, each acknowledged by all replicas in sync; `sent` has them in order."""

    def __init__(self, bootstrap, seed):
        self.sent = []
        self._failed = []
        self._prng = random.Random(seed)
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})

    def send_for(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            key = self._prng.choice(KEYS)
            line = " ".join(self._prng.choices(WORDS, k=self._prng.randint(1, 5)))
            self.sent.append((key, line))
            self._producer.produce("lines", line, key, on_delivery=self._delivered)
            self._producer.poll(1 / LINES_PER_SECOND)

    def _delivered(self, error, _):
        if error is not None:
            self._failed.append(error)

    def close(self):
        assert self._producer.flush(CALL_SECONDS) == 0
        assert self._failed == []

    def word_counts(self):
        return Counter(word for _, line in self.sent for word in line.split())

    def running_sums(self):
        """By key, what the second topology must say, in its order."""
        found = {}
        for key, line in self.sent:
            before = found.setdefault(key, [(0, 0)])[-1]
            found[key].append((before[0] + 1, before[1] + len(line.split())))
        return {key: values[1:] for key, values in found.items()}


class Reader:
    """A read_committed reader of a topic; `records` (key, value) in the order of each partition."""

    def __init__(self, bootstrap, topic):
        self.records = []
        settings = {"group.id": "judge", "isolation.level": "read_committed"}
        self._consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
        self._consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])

    def poll(self):
        for message in self._consumer.consume(1000, 0.5):
            if message.error() is None:
                self.records.append((message.key().decode(), message.value()))

    def close(self):
        self._consumer.close()


def sums_of(records):
    found = {}
    for key, value in records:
        count, words = value.decode().split()
        found.setdefault(key, []).append((int(count), int(words)))
    return found


def counts_of(records):
    """The last count of each word, and whether none of a word ever went back."""
    last, is_rising = {}, True
    for word, value in records:
        count = int.from_bytes(value, "big")
        is_rising = is_rising and count > last.get(word, 0)
        last[word] = count
    return last, is_rising


@pytest.mark.client("Java", "Streams", version=apache_kafka.VERSION)
def test_results_are_exact_while_nodes_die(cluster, program, tmp_path, minutes):
    state, log = tmp_path / "state", tmp_path / "application.log"
    line = java_programs.command(
        program, "Topologies", cluster.bootstrap, "words", state, "classic"
    )
    lines = Input(cluster.bootstrap, seed=7)
    counts, sums = (Reader(cluster.bootstrap, topic) for topic in ("counts", "sums"))
    with Kills(cluster) as kills:
        with java_programs.running(line, log) as application:
            lines.send_for(seconds_of(minutes) / 2)
            assert application.poll() is None, log.read_text()[-3000:]
            application.send_signal(signal.SIGKILL)
        shutil.rmtree(state)
        with java_programs.running(line, log) as application:
            lines.send_for(seconds_of(minutes) / 2)
            kills.stop()
            lines.close()
            wanted = lines.word_counts()

            def are_summed():
                assert application.poll() is None, log.read_text()[-3000:]
                sums.poll()
                return len(sums.records) >= len(lines.sent)

            def are_counted():
                counts.poll()
                return counts_of(counts.records)[0] == wanted

            until(are_summed, f"all lines are summed; {log}", ARRIVE_SECONDS_MAX)
            until(are_counted, f"all words are counted; {log}", ARRIVE_SECONDS_MAX)
    for reader in (sums, counts):  # whatever should not be there
        reader.poll()
        reader.close()
    assert min(kills.count.values()) > 0
    print(f"{len(lines.sent)} lines, killed {kills.count}")
    assert sums_of(sums.records) == lines.running_sums()
    assert counts_of(counts.records) == (wanted, True)


def test_the_protocol_of_kip_1071_is_refused_in_words(cluster, program, tmp_path):
    """`group.protocol=streams` is not served: the application ends and says why."""
    arguments = (cluster.bootstrap, "kip1071", tmp_path, "streams")
    line = java_programs.command(program, "Topologies", *arguments)
    done = subprocess.run(line, capture_output=True, text=True, timeout=CALL_SECONDS, check=False)
    assert done.returncode == 1, done.stdout
    assert "UnsupportedVersionException" in done.stdout, done.stdout
    assert "does not support" in done.stdout, done.stdout
