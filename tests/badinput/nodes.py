"""The nodes that receive bad input: their addresses, and properties of their processes that must not change."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.badinput.made import made
from tests.badinput.peer import Address, ask, codes
from tests.cluster.commands import run
from tests.cluster.processes import LocalCluster, until
from trimaran.quorum.observing.description import describe_quorum_request
from trimaran.wire.messages.api_versions import ApiVersionsRequest
from trimaran.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

TOPIC = "orders"
COMPACTED = "compacted"
# The permitted growth of a process in one case: retained buffers, caches, fragments of the allocator.
GROWTH_KIB_MAX = 24 << 10
# Log lines that one case may cause: one of each rate-limited kind, and lines that the case does not cause.
LINES_MAX = 6
# `controller.quorum.fetch.timeout.ms`, and the election after it, are 2 s each; a loaded machine takes longer.
ELECTED_SECONDS_MAX = 20.0
# For a manual comparison with another implementation: BROKER_HOST:PORT,CONTROLLER_HOST:PORT of a running cluster.
PEERS = os.environ.get("BADINPUT_PEERS")


def cli(*words: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Runs a command of our CLI and waits until it exits."""
    return run([*words], seconds=timeout)


def address_of(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


@dataclass
class Node:
    """One process; `pid` is 0 for one that is not ours."""

    role: str
    id: int
    address: Address
    pid: int = 0
    log: Path = Path()
    directory: Path = Path()

    def rss_kib(self) -> int:
        return self._status("VmRSS")

    def peak_kib(self) -> int:
        """Returns the peak memory of the process."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        if not self.pid:
            return
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def _status(self, name: str) -> int:
        if not self.pid:
            return 0
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(rf"{name}:\s+(\d+)", text)[1])  # type: ignore[index]

    def said(self) -> list[str]:
        return self.log.read_text(errors="replace").splitlines() if self.pid else []

    def assert_serves(self) -> None:
        """Asserts that another connection gets correct responses."""
        versions = ask(self.address, ApiVersionsRequest(), 0)
        assert versions.error_code == 0
        assert len(versions.api_keys) > 8
        if self.role == "broker":
            request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
            (topic,) = ask(self.address, request, 1).topics
            assert [p.leader_id for p in topic.partitions] == [self.id, self.id]
        else:
            assert self.leads()

    def leads(self) -> bool:
        """Returns whether this controller is the active one."""
        return codes(ask(self.address, describe_quorum_request(), 0)) == {"NONE"}


@contextmanager
def unharmed(node: Node, lines_max: int = LINES_MAX, *, elections: bool = False) -> Iterator[None]:
    """Checks at the end of every case that the process lives, serves other clients, has not grown, and has not filled
    its log.

    `elections`: an unknown replica may have claimed a higher epoch, which KIP-853 permits. The controller is elected
    again when that replica has been silent for a fetch timeout.
    """
    rss, said = node.rss_kib(), len(node.said())
    yield
    if elections and node.role == "controller":
        until(node.leads, "the controller is elected again", ELECTED_SECONDS_MAX)
    node.assert_serves()
    assert node.rss_kib() - rss < GROWTH_KIB_MAX
    lines = node.said()[said:]
    assert not [line for line in lines if "Traceback" in line], "\n".join(lines)
    assert len(lines) <= lines_max, "\n".join(lines)


def create_topic(node: Node, name: str, partitions: int = 1, **configs: str) -> int:
    """Asks a broker, or the active controller, to create a topic of one replica; returns the error code."""
    settings = [
        CreatableTopicConfig(name=key.replace("_", "."), value=value)
        for key, value in configs.items()
    ]
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1, configs=settings, assignments=[]
    )
    (made,) = ask(node.address, CreateTopicsRequest(topics=[topic]), 7).topics
    return made.error_code


@dataclass
class Cluster:
    """A controller and a broker, in processes of their own."""

    controller: Node
    broker: Node
    cluster_id: str
    data: Path = Path()
    topic_ids: dict[str, bytes] = field(default_factory=dict)

    def nodes(self) -> tuple[Node, Node]:
        return self.broker, self.controller

    def create(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        """Creates a topic unless it exists, and returns its id."""
        assert create_topic(self.broker, name, partitions, **configs) in (0, 36), name
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        (found,) = ask(self.broker.address, request, 10).topics
        self.topic_ids[name] = found.topic_id
        return found.topic_id


@contextmanager
def running_cluster(data: Path, *options: str) -> Iterator[Cluster]:
    """Starts a cluster with more `options` by the command line, and deletes it at the end."""
    with LocalCluster(data, "--controllers", "1", "--brokers", "1", *options) as local:
        controller, broker = (
            Node(
                node["role"],
                node["id"],
                address_of(node["address"]),
                node["pid"],
                Path(f"{node['dir']}.log"),
                Path(node["dir"]),
            )
            for node in local.started["nodes"]
        )
        yield Cluster(controller, broker, local.started["cluster_id"], data)
        local.run("purge", "-y")


@contextmanager
def foreign_cluster(addresses: str) -> Iterator[Cluster]:
    """Returns a foreign cluster; only its responses on the wire are checked."""
    from trimaran.wire.messages.describe_cluster import DescribeClusterRequest

    broker, controller = map(address_of, addresses.split(","))
    told = ask(broker, made(DescribeClusterRequest), 0)
    yield Cluster(
        Node(
            "controller",
            ask(controller, describe_quorum_request(), 0).topics[0].partitions[0].leader_id,
            controller,
        ),
        Node("broker", told.brokers[0].broker_id, broker),
        told.cluster_id,
    )
