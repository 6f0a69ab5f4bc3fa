"""A quorum of our controllers and Apache Kafka's: leaders of either kind are killed during a stream of topic creations.
Run: `python -m tests.interop.mixed_quorum [--kills 20] [--ours 2|1] [DIRECTORY]`. This many leaders of each kind are
killed with SIGKILL and started again. Before a kill the kind of the successor is chosen: a third voter of the other
kind is frozen until the successor has committed records that the third voter lacks, so that it cannot win. Meanwhile,
one of our brokers keeps requesting new topics.

Afterwards every topic that was acknowledged is in the metadata of each controller, the three logs are equal byte by
byte up to the high watermark, and `trimaran metadata verify` finds no difference.
"""

import argparse
import contextlib
import json
import signal
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.cluster import processes
from tests.interop.conftest import trimaran
from tests.interop.controllers import SECONDS_MAX, controllers
from trimaran.log.inspection.reader import scan_batches
from trimaran.wire.blocking import BlockingConnection
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut
from trimaran.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

BROKER = 11
CREATE_SECONDS = 5.0
AHEAD = 3  # topics that the successor has and the frozen voter lacks
LAG_MAX = 5  # the number of further records to wait for
PROBE_SECONDS = 0.1  # between probes, which themselves load the nodes


class Outcome(NamedTuple):
    """The outcome; `kills` has the number by kind, `bytes_compared` that of each log."""

    kills: dict[str, int]
    acknowledged: int
    lost: int
    bytes_compared: int
    verified: str

    def __str__(self):
        kills = ", ".join(f"{count} of {kind}" for kind, count in sorted(self.kills.items()))
        return (
            f"leaders killed: {kills}; topics acknowledged: {self.acknowledged}, lost: {self.lost};"
            f" bytes equal in all three logs: {self.bytes_compared}; verify: {self.verified}"
        )


class Creations:
    """Requests one topic after another from a broker until it is closed; `acknowledged` grows."""

    def __init__(self, address):
        self._address = address
        self._closed = False
        self.acknowledged = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self):
        self._closed = True
        self._thread.join()

    def wait_for(self, more):
        """Waits until this number of further records is acknowledged."""
        wanted = len(self.acknowledged) + more
        until(lambda: len(self.acknowledged) >= wanted, "topics are created")

    def _run(self):
        number = 0
        while not self._closed:
            with (
                contextlib.suppress(ConnectionLost, RequestTimedOut),
                contextlib.closing(BlockingConnection(self._address)) as connection,
            ):
                while not self._closed:
                    number += (
                        # each name is used only once, because the outcome of an unanswered request is unknown
                        1
                    )
                    self._create(connection, f"topic-{number}")

    def _create(self, connection, name):
        topic = CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        answer = connection.call(CreateTopicsRequest(topics=[topic]), timeout=CREATE_SECONDS)
        if answer.topics[0].error_code == 0:
            self.acknowledged.append(name)


def until(condition, what):
    """Waits for a condition, with a timeout for slow JVMs."""
    return processes.until(condition, what, SECONDS_MAX, PROBE_SECONDS)


def caught_up(cluster):
    """Returns the quorum if every voter is running and follows, otherwise None."""
    found = cluster.quorum()
    if found is None or len(cluster.running_controllers) < len(cluster.kinds):
        return None
    ends = [voter.log_end_offset for voter in found.current_voters]
    return found if min(ends) >= found.high_watermark - LAG_MAX > 0 else None


def kill_leader(cluster, creations, leader, heir_kind):
    """Kills the leader with SIGKILL, if possible so that a voter of `heir_kind` becomes the leader."""
    others = [i for i in cluster.kinds if i != leader]
    frozen = [i for i in others if cluster.kinds[i] != heir_kind]
    if len(frozen) == len(others):
        frozen = []
    for i in frozen:
        cluster.processes[i].send_signal(signal.SIGSTOP)
    creations.wait_for(AHEAD)
    cluster.kill(leader)
    for i in frozen:
        cluster.processes[i].send_signal(signal.SIGCONT)
    until(lambda: (found := cluster.quorum()) and found.leader_id != leader, "another leads")
    creations.wait_for(AHEAD)
    cluster.start(leader)
    until(lambda: caught_up(cluster), f"all follow after {leader} was killed")


def run(root, kinds, kills_of_each, say=lambda _: None):
    killed = Counter()
    with controllers(root, dict(enumerate(kinds, 1)), {BROKER: "ours"}) as cluster:
        for i in cluster.kinds:
            cluster.format(i, "--initial-controllers", cluster.initial, by="ours")
            cluster.start(i)
        until(lambda: caught_up(cluster), "the quorum begins")
        cluster.start_brokers()
        creations = Creations(("127.0.0.1", cluster.ports[BROKER]))
        try:
            while min(killed[kind] for kind in kinds) < kills_of_each:
                leader = until(lambda: caught_up(cluster), "all follow").leader_id
                kind = cluster.kinds[leader]
                killed[kind] += 1
                heir = min(set(kinds), key=lambda one: (killed[one], one == kind))
                kill_leader(cluster, creations, leader, heir)
                say(f"{dict(killed)}, {len(creations.acknowledged)} topics acknowledged")
        finally:
            creations.close()
        high_watermark = until(lambda: caught_up(cluster), "all follow").high_watermark
        creations.acknowledged.sort()
        cluster.stop()
        return judge(cluster, dict(killed), creations.acknowledged, high_watermark)


def judge(cluster, killed, acknowledged, high_watermark):
    directories = [str(cluster.directory(i)) for i in cluster.kinds]
    ends = [end_of(cluster, i, high_watermark) for i in cluster.kinds]
    logs = [cluster.log(i)[: min(ends)] for i in cluster.kinds]
    assert logs[0] == logs[1] == logs[2], f"logs differ in {cluster.root}"
    lost = set()
    for directory in directories:
        topics = json.loads(trimaran("metadata", "image", directory, "-o", "json").stdout)["topics"]
        lost |= set(acknowledged) - set(topics)
    verified = trimaran("metadata", "verify", *directories).stdout.strip().splitlines()[-1]
    return Outcome(killed, len(acknowledged), len(lost), min(ends), verified)


def end_of(cluster, i, offset):
    """Returns the position in a controller's log at which the batches below this offset end."""
    path = cluster.directory(i) / "__cluster_metadata-0" / f"{0:020d}.log"
    return max(at + batch.size for at, batch in scan_batches(path) if batch.next_offset <= offset)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="of each kind")
    parser.add_argument("--ours", type=int, choices=(1, 2), help="of three controllers; else both")
    parser.add_argument("directory", nargs="?", type=Path, help="where logs stay")
    options = parser.parse_args()
    failed = False
    for ours in [options.ours] if options.ours else [2, 1]:
        root = Path(tempfile.mkdtemp(prefix="mixed-quorum-", dir=options.directory))
        kinds = ("ours",) * ours + ("kafka",) * (3 - ours)
        outcome = run(root, kinds, options.kills, lambda text: print(text, file=sys.stderr))
        print(f"{ours} of ours and {3 - ours} of Kafka's: {outcome}", flush=True)
        failed |= outcome.lost > 0 or "0 problems" not in outcome.verified
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
