"""A broker's data side without a quorum: real log directory, group commit, partitions and listeners; the image is
given.

Requests to a controller (creation, ISR changes, heartbeats) are recorded or omitted; `in_process.py` has real ones.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import trio
from immutables import Map

from tests.cluster.nodes import CLUSTER_ID, dotted, format_directory, server_config
from trimaran.broker.channels.broker_connector import BrokerConnector
from trimaran.broker.channels.controller_channel import ControllerCalls
from trimaran.broker.handlers.context import Contexts
from trimaran.broker.handlers.registry import broker_registry
from trimaran.broker.metadata.metadata_cache import BrokerMetadata
from trimaran.broker.partitions.isr_change import IsrChange, IsrChangeOwner
from trimaran.broker.partitions.suspect_checks import check_suspects
from trimaran.broker.process.families import Cluster, Families, families, fetchers_of
from trimaran.broker.process.ports import Ports
from trimaran.broker.replication.fetchers import Fetchers
from trimaran.broker.storage.directories import LogDirectories
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.durability.group_commit import Durability, GroupCommit
from trimaran.node.config.server import ServerConfig
from trimaran.node.runtime.clock import now_ms
from trimaran.quorum.metadata.image import (
    BrokerRegistration,
    ClusterImage,
    ConfigsImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
    TopicsImage,
)
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Address, LeaderEpoch, TopicPartition
from trimaran.wire.text.endpoint import Endpoint
from trimaran.wire.transport.server.server import Listener, serve_listener

LISTENER = "PLAINTEXT"
DIRECTORY = bytes(15) + b"\x07"


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")[:16]


def partition(
    replicas: tuple[int, ...] = (11,), leader: int | None = None, **changes: Any
) -> PartitionImage:
    values: dict[str, Any] = {
        "replicas": replicas,
        "directories": (DIRECTORY,) * len(replicas),
        "isr": replicas,
        "leader": replicas[0] if leader is None else leader,
        **changes,
    }
    return PartitionImage(**values)


def topic(name: str, *partitions: PartitionImage) -> TopicImage:
    return TopicImage(name, topic_id(name), Map(dict(enumerate(partitions))))


def topics_image(*topics: TopicImage) -> TopicsImage:
    return TopicsImage(
        by_name=Map({each_topic.name: each_topic for each_topic in topics}),
        by_id=Map({each_topic.id: each_topic for each_topic in topics}),
    )


def registration(broker_id: int, port: int = 9092, **changes: Any) -> BrokerRegistration:
    values: dict[str, Any] = {
        "id": broker_id,
        "epoch": 100 + broker_id,
        "incarnation_id": bytes([broker_id] * 16),
        "listeners": (Endpoint(LISTENER, "127.0.0.1", port),),
        "fenced": False,
        **changes,
    }
    return BrokerRegistration(**values)


def cluster_image(*brokers: BrokerRegistration) -> ClusterImage:
    return ClusterImage(brokers=Map({broker.id: broker for broker in brokers}))


def config(**settings: str) -> ServerConfig:
    base = {
        "process.roles": "broker",
        "node.id": "11",
        "listeners": f"{LISTENER}://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@127.0.0.1:1",
        **dotted(settings),
    }
    return server_config(base)


@dataclass
class RecordedIsrChanges:
    """Records the requests of leaders to the controller; the test answers them."""

    submitted: list[tuple[IsrChangeOwner, IsrChange]] = field(default_factory=list)

    def submit(self, owner: IsrChangeOwner, change: IsrChange) -> None:
        self.submitted.append((owner, change))


@dataclass
class RecordedFollows:
    followed: list[str] = field(default_factory=list)

    def follow(self, partition: Any) -> None:
        self.followed.append(f"+{partition.name}@{partition.state.leader_epoch}")

    def unfollow(self, partition: Any) -> None:
        self.followed.append(f"-{partition.name}")


@dataclass
class Harness:
    """The data side of broker `node_id`; the test sets `now`."""

    node_id: int
    directory: LogDirectory
    cluster: Cluster
    isr_changes: RecordedIsrChanges
    follows: Any
    group_commit: GroupCommit
    families: Families
    now: float = 1000.0

    def __post_init__(self) -> None:
        self.contexts = self.families.contexts
        self.config, self.metadata = self.cluster.config, self.cluster.metadata
        self.settings = self.cluster.settings
        self.partitions = self.families.data.partitions
        self.directories = self.contexts.directories.directories

    def set_image(
        self,
        *topics: TopicImage,
        brokers: tuple[BrokerRegistration, ...] | None = None,
        configs: Mapping[tuple[int, str], Mapping[str, str]] | None = None,
    ) -> None:
        old = self.metadata.image
        cluster = old.cluster if brokers is None else cluster_image(*brokers)
        kept = old.configs
        if configs is not None:
            kept = ConfigsImage(Map({key: Map(value) for key, value in configs.items()}))
            self.settings.changed(None)
        image = MetadataImage(topics=topics_image(*topics), cluster=cluster, configs=kept)
        self.metadata.set(image)
        names = {*old.topics.by_name, *image.topics.by_name}
        for name in sorted(names):
            self.partitions.apply_topic(name, image.topics.by_name.get(name))
        if brokers is not None:
            changed = {*old.cluster.brokers, *cluster.brokers}
            self.partitions.brokers_changed(frozenset(changed))

    def leader(self, name: str = "t", index: int = 0) -> Any:
        return self.partitions.leader_of(TopicPartition(name, index))

    def flush(self) -> None:
        """Runs one round of group commit, without its thread."""
        self.group_commit._flush_left()
        dirty, self.group_commit._dirty = self.group_commit._dirty, {}
        for item in dirty.values():
            item.log.flush()
            for on_flushed in item.on_flushed:
                on_flushed(item.log.flushed_offset)
            self.group_commit._done(item)


class Unreachable:
    """A controller and brokers that do not answer."""

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()

    async def call(self, *_request: object, timeout: float) -> Any:  # noqa: ASYNC109
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"unreachable for {timeout} s")


def _address(metadata: BrokerMetadata, broker_id: int) -> Address | None:
    broker = metadata.image.cluster.brokers.get(broker_id)
    return None if broker is None else Address(broker.listeners[0].host, broker.listeners[0].port)


def replaced(contexts: Any, **changes: Any) -> Any:
    """Returns the contexts of all families with other values in these fields; likewise for a controller's context."""
    if not isinstance(contexts, Contexts):
        return replace(contexts, **changes)
    given: dict[str, Any] = {each.name: getattr(contexts, each.name) for each in fields(contexts)}
    known = {each.name for context in given.values() for each in fields(context)}
    assert known >= changes.keys(), changes
    return Contexts(
        **{
            name: replace(
                context, **{key: changes[key] for key in changes if hasattr(context, key)}
            )
            for name, context in given.items()
        }
    )


def open_harness(
    path: Path,
    node_id: int = 11,
    *,
    replicates: bool = False,
    controller: ControllerCalls | None = None,
    now_ms: Callable[[], int] = now_ms,
    **settings: str,
) -> Harness:
    """Opens a harness; `settings` are configuration keys, with underscores for dots. With `replicates` it follows
    leaders.
    """
    format_directory(path, node_id, DIRECTORY)
    server_config = config(**{"node_id": str(node_id), "log_dirs": str(path), **settings})
    directory = LogDirectory(path, now_ms=now_ms)
    fsync = server_config["trimaran.log.fsync"] == "commit"
    group_commit = GroupCommit(directory.health, fsync=fsync)
    cluster = Cluster.of(server_config, BrokerMetadata(MetadataImage(), lambda: harness.now))
    isr_changes, unreachable = RecordedIsrChanges(), Unreachable()
    follows: Any = RecordedFollows()
    if replicates:
        connector = BrokerConnector(partial(_address, cluster.metadata), "follower")
        follows = fetchers_of(cluster, connector, lambda: 100 + node_id)
    ports = Ports(
        directories=LogDirectories([directory]),
        durability=Durability({directory.health: group_commit}, fsync=fsync),
        controller=controller or unreachable,
        isr_changes=isr_changes,
        fetchers=follows,
        open_channels=lambda _purpose: unreachable,
        broker_epoch=lambda: 100 + node_id,
        report=lambda: None,
        kraft_version=lambda: 0,
        quorum_epoch=lambda: LeaderEpoch(1),
        now=lambda: harness.now,
        now_ms=now_ms,
    )
    made = families(cluster, ports, CLUSTER_ID)
    harness = Harness(node_id, directory, cluster, isr_changes, follows, group_commit, made)
    return harness


@asynccontextmanager
async def serving(harness: Harness) -> AsyncIterator[int]:
    """Listens and commits; yields the port, and registers the broker there."""
    listener = Listener.bind(LISTENER, "127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.group_commit.run)
        nursery.start_soon(check_suspects, harness.partitions)
        if isinstance(harness.follows, Fetchers):
            nursery.start_soon(harness.follows.run)
        await nursery.start(serve_listener, [listener], broker_registry(), harness.contexts)
        harness.metadata.image = MetadataImage(
            topics=harness.metadata.image.topics,
            cluster=cluster_image(registration(harness.node_id, listener.address[1])),
            configs=harness.metadata.image.configs,
        )
        yield listener.address[1]
        nursery.cancel_scope.cancel()
