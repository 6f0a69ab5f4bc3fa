"""A broker's data side without a quorum: real log directory, group commit, partitions and listeners; the image is
given.

Requests to a controller (creation, ISR changes, heartbeats) are recorded or omitted; `in_process.py` has real ones.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio
from immutables import Map

from tests.cluster.nodes import CLUSTER_ID, dotted, format_directory, server_config
from trimaran.broker.background.directory_moves import DirectoryMoves
from trimaran.broker.channels.broker_channel import ChannelLimits
from trimaran.broker.channels.broker_channels import BrokerChannels
from trimaran.broker.channels.broker_connector import BrokerConnector
from trimaran.broker.fetching.replica_selection import SELECTORS
from trimaran.broker.fetching.sessions import FetchSessions
from trimaran.broker.groups.coordinator import GroupCoordinator
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.handlers.context import BrokerLimits, Context
from trimaran.broker.handlers.registry import broker_registry
from trimaran.broker.metadata.metadata_cache import BrokerMetadata
from trimaran.broker.metadata.replication_throttles import ReplicationThrottles
from trimaran.broker.metadata.topic_settings import TopicSettingsSource
from trimaran.broker.partitions.isr_change import IsrChange, IsrChangeOwner
from trimaran.broker.partitions.registry import Partitions
from trimaran.broker.partitions.services import Services
from trimaran.broker.partitions.suspect_checks import check_suspects
from trimaran.broker.process.transactions import transactions
from trimaran.broker.replication.fetch_client import FetchSettings
from trimaran.broker.replication.fetchers import Fetchers
from trimaran.broker.storage.directories import LogDirectories
from trimaran.broker.transactions.marking import Marking
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
        by_name=Map({one.name: one for one in topics}), by_id=Map({one.id: one for one in topics})
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
    return ClusterImage(brokers=Map({one.id: one for one in brokers}))


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
    """Records the requests of leaders to the controller; a test answers."""

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
    """The data side of broker `node_id`; `now` is what the test says."""

    node_id: int
    directory: LogDirectory
    directories: LogDirectories
    metadata: BrokerMetadata
    settings: TopicSettingsSource
    partitions: Partitions
    isr_changes: RecordedIsrChanges
    follows: Any
    group_commit: GroupCommit
    config: ServerConfig
    context: Context
    now: float = 1000.0

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
        return self.partitions.leader_of(name, index)

    def flush(self) -> None:
        """One round of group commit, without its thread."""
        self.group_commit._flush_left()
        dirty, self.group_commit._dirty = self.group_commit._dirty, {}
        for one in dirty.values():
            one.log.flush()
            for on_flushed in one.on_flushed:
                on_flushed(one.log.flushed_offset)
            self.group_commit._done(one)


def _address(metadata: BrokerMetadata, broker_id: int) -> tuple[str, int] | None:
    broker = metadata.image.cluster.brokers.get(broker_id)
    return None if broker is None else (broker.listeners[0].host, broker.listeners[0].port)


def open_harness(
    path: Path, node_id: int = 11, *, replicates: bool = False, **settings: str
) -> Harness:
    """`settings` are configuration keys, dots as underscores. `replicates`: follows leaders for real."""
    format_directory(path, node_id, DIRECTORY)
    server_config = config(**{"node_id": str(node_id), "log_dirs": str(path), **settings})
    directory = LogDirectory(path, now_ms=now_ms)
    fsync = server_config["trimaran.log.fsync"] == "commit"
    group_commit = GroupCommit(directory.health, fsync=fsync)
    metadata = BrokerMetadata(MetadataImage(), lambda: harness.now)
    settings_source = TopicSettingsSource(server_config, metadata, node_id)
    isr_changes = RecordedIsrChanges()
    follows: Any = RecordedFollows()
    if replicates:
        follows = Fetchers(
            BrokerConnector(lambda broker_id: _address(metadata, broker_id), "follower"),
            FetchSettings(
                node_id,
                lambda: 100 + node_id,
                server_config["replica.fetch.wait.max.ms"],
                1,
                1 << 20,
                10 << 20,
            ),
        )
    directories = LogDirectories([directory])
    harness: Harness
    services = Services(
        node_id=node_id,
        directories=directories,
        settings=settings_source,
        commit=Durability({directory.health: group_commit}, fsync=fsync),
        isr_changes=isr_changes,
        metadata=metadata,
        broker_epoch=lambda: 100 + node_id,
        lag_seconds_max=30.0,
        now=lambda: harness.now,
        now_ms=now_ms,
    )
    partitions = Partitions(services, follows, directory.high_watermark)
    absent: Any = None
    channels = BrokerChannels(
        BrokerConnector(lambda broker_id: _address(metadata, broker_id), "harness"), ChannelLimits()
    )
    groups = GroupCoordinator(GroupLimits.of(server_config), metadata)
    transacting = transactions(
        server_config,
        metadata,
        Marking(partitions, groups.complete_transaction, now_ms),
        absent,
        lambda _purpose: channels,
        lambda: True,
    )
    throttles = ReplicationThrottles()
    context = Context(
        config=server_config,
        node_id=node_id,
        cluster_id=CLUSTER_ID,
        metadata=metadata,
        partitions=partitions,
        directories=directories,
        moves=DirectoryMoves(directories, partitions, throttles.moves),
        controller=absent,
        forwarder=absent,
        topic_creation=absent,
        fetch_sessions=FetchSessions(server_config["max.incremental.fetch.session.cache.slots"]),
        producer_ids=absent,
        groups=groups,
        transactions=transacting.coordinator,
        verifier=transacting.verifier,
        limits=BrokerLimits(fetch_bytes_max=server_config["fetch.max.bytes"]),
        throttles=throttles,
        replica_selector=SELECTORS.get(server_config["replica.selector.class"]),
        broker_epoch=lambda: 100 + node_id,
        now_ms=now_ms,
        kraft_version=lambda: 0,
    )
    harness = Harness(
        node_id,
        directory,
        directories,
        metadata,
        settings_source,
        partitions,
        isr_changes,
        follows,
        group_commit,
        server_config,
        context,
    )
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
        await nursery.start(serve_listener, [listener], broker_registry(), harness.context)
        harness.metadata.image = MetadataImage(
            topics=harness.metadata.image.topics,
            cluster=cluster_image(registration(harness.node_id, listener.address[1])),
            configs=harness.metadata.image.configs,
        )
        yield listener.address[1]
        nursery.cancel_scope.cancel()
