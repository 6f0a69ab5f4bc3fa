"""A local cluster of real processes, driven by a user's commands, and observed through `cluster.json`."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tests.cluster.commands import ROOT, run
from trimaran.client.topics import topic_described
from trimaran.local import state_file
from trimaran.local.readiness import roles_now
from trimaran.log.inspection.reader import scan_batches
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

Found = TypeVar("Found")
POLL_SECONDS = 0.01
# Ten times the duration of a step of a cluster on a machine with fifteen busy processes per core.
WAIT_SECONDS = 60.0


def trimaran(*words, check=True, stdin=None, environ=None):
    """Runs a command of ours as a user does."""
    environment = {**os.environ, **(environ or {})}
    done = run([*map(str, words)], stdin=stdin, environ=environment, cwd=ROOT)
    assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done


def until(
    probe: Callable[[], Found],
    what: str,
    seconds: float = WAIT_SECONDS,
    pause_seconds: float = POLL_SECONDS,
) -> Found:
    """Probes until the result is true, and returns it; raises AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not (found := probe()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        pause.wait(pause_seconds)
    return found


@contextmanager
def ended_with_its_block(process: subprocess.Popen) -> Iterator[subprocess.Popen]:
    """Stops a cluster in the foreground, even if the test fails: a supervisor that receives SIGTERM stops its nodes."""
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


class LocalCluster:
    """`up -d` at the start, `down` at the end of the block."""

    def __init__(self, data, *options):
        self.data = Path(data)
        self.started = json.loads(self.run("up", "-d", "-o", "json", *options).stdout)
        self.bootstrap = self.started["bootstrap"]
        self.controllers = self.started["controller_bootstrap"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.run("down", check=False)

    def run(self, *words, **options):
        return trimaran(*words, "--data", self.data, **options)

    def json(self, *words, **options):
        return json.loads(self.run(*words, "-o", "json", **options).stdout)

    @property
    def state(self):
        """Returns the current contents of `cluster.json`."""
        return state_file.read(self.data)

    def node(self, name):
        found = self.state.node(str(name))
        assert found is not None, name
        return found

    def roles(self):
        """Returns `leader`, `follower`, `active`, `fenced` and so on by the id of the node."""
        return {node.id: node.state for node in roles_now(self.state).nodes}

    def brokers(self):
        return {n.id for n in self.state.nodes if n.role == "broker"}

    def active_controller(self):
        """Returns the id of the active controller, once there is one."""
        return until(
            lambda: next((i for i, role in self.roles().items() if role == "leader"), None),
            "an active controller",
        )

    def kill(self, name):
        """Kills the node with SIGKILL, and waits until the supervisor has noticed."""
        self.run("chaos", "kill", str(name))

    def restart(self, name):
        self.run("chaos", "restart", str(name))

    def wait_for_topic(self, topic):
        """Waits until every broker knows a leader of each partition, since clients ask any of them."""
        for node in self.state.nodes:
            if node.role == "broker":
                with BlockingClient(node.address) as client:
                    until(lambda c=client: _leaders(c, topic), f"{topic} at {node.name}")

    def partitions(self, topic):
        """Returns the rows of `topics describe` by partition, without a process: tests ask for them repeatedly."""
        with BlockingClient(self.bootstrap) as client:
            found = topic_described(client, topic)
        return {row["partition"]: row for row in found["partitions"]}

    def batches(self, topic, partition):
        """Returns the batches on the disk of the partition's leader."""
        leader = self.node(self.partitions(topic)[partition]["leader"])
        files = sorted(Path(leader.dir, f"{topic}-{partition}").glob("*.log"))
        return [batch for file in files for _, batch in scan_batches(file)]


def _leaders(client, topic):
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    (found,) = client.call(None, request).topics
    return not found.error_code and all(p.leader_id >= 0 for p in found.partitions)
