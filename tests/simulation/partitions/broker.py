"""A broker of the simulation: the real partition layer over a simulated disk, in a sequence of processes. The real
parts are `Partitions` with everything below (leaders, followers, ISR, logs, directories), the group commit, `Fetchers`,
`AlterPartitions`, `DirectoryAssignments`, `BrokerPublisher`, and the handlers of Fetch, ListOffsets and
OffsetForLeaderEpoch. Disk, connections, threads and time are simulated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from tests.cluster.data_side import config
from tests.simulation.partitions.disk import SimDisk
from tests.simulation.partitions.network import CONTROLLER, Lost
from trimaran.broker.background.maintenance import Maintenance, MaintenanceTimes
from trimaran.broker.channels.broker_channels import Channels
from trimaran.broker.handlers.context import Contexts
from trimaran.broker.handlers.fetch import fetch
from trimaran.broker.handlers.list_offsets import list_offsets
from trimaran.broker.handlers.offset_for_leader_epoch import offset_for_leader_epoch
from trimaran.broker.metadata.metadata_cache import BrokerMetadata
from trimaran.broker.metadata.topic_settings import TopicSettingsSource
from trimaran.broker.partitions.alter_partitions import AlterPartitions
from trimaran.broker.partitions.registry import Partitions
from trimaran.broker.partitions.suspect_checks import check_suspects
from trimaran.broker.process.failed_directories import FailedDirectories
from trimaran.broker.process.families import Cluster, families, fetchers_of
from trimaran.broker.process.ports import Ports
from trimaran.broker.storage.directories import LogDirectories
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.meta_properties import MetaProperties
from trimaran.log.durability.group_commit import Durability, GroupCommit
from trimaran.log.durability.health import StorageFailure
from trimaran.log.segments.slices import LogSlice
from trimaran.node.config.server import ServerConfig
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import TOPIC_RESOURCE, MetadataImage
from trimaran.quorum.metadata.loader import Manifest, Publisher
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import LeaderEpoch
from trimaran.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from trimaran.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Listener,
)
from trimaran.wire.messages.fetch import FetchRequest, FetchResponse
from trimaran.wire.messages.list_offsets import ListOffsetsRequest
from trimaran.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from trimaran.wire.schema import Message
from trimaran.wire.transport.requests.calls import Call

if TYPE_CHECKING:
    from tests.simulation.partitions.network import Connection
    from tests.simulation.partitions.world import World

CLUSTER = "sim"
LAG_SECONDS_MAX = 0.8
HEARTBEAT_SECONDS = 0.3
CHECKPOINT_SECONDS = 0.7
RETENTION_SECONDS = 0.9
RETRY_SECONDS = 0.1
HANDLERS: dict[type[Message], Callable[..., Any]] = {
    FetchRequest: fetch,
    ListOffsetsRequest: list_offsets,
    OffsetForLeaderEpochRequest: offset_for_leader_epoch,
}


@cache
def configured(broker_id: int, fetch_bytes: int, **settings: object) -> ServerConfig:
    """Returns a broker's configuration with short times, so that more happens in a run."""
    shorter = {
        "node.id": broker_id,
        "controller.quorum.voters": "100@127.0.0.1:1",
        "fetch.max.bytes": 10 << 20,
        "max.incremental.fetch.session.cache.slots": 100,
        "replica.fetch.backoff.ms": 200,
        "replica.fetch.max.bytes": fetch_bytes,
        "replica.fetch.wait.max.ms": 300,
        "replica.lag.time.max.ms": int(LAG_SECONDS_MAX * 1000),
        "replica.socket.timeout.ms": 1000,
        **settings,
    }
    return config(**{key: str(value) for key, value in shorter.items()})


def directory_id(broker_id: int, number: int = 0) -> bytes:
    return bytes([1, number]) + bytes(13) + bytes([broker_id])


class _SmallSegments(TopicSettingsSource):
    """Topic settings with segments of a few batches, so that they roll in a run; a configuration refuses less than 1
    MiB (KIP-1030).
    """

    def value(self, topic: str, key: str) -> Any:
        own = self._metadata.image.configs.of(TOPIC_RESOURCE, topic)
        return int(own[key]) if key == "segment.bytes" and key in own else super().value(topic, key)


class _Connector:
    def __init__(self, broker: SimBroker) -> None:
        self._broker = broker

    def connect(self, broker_id: int, *, copy_records: bool = True) -> Any:
        return self._broker.world.network.connect(self._broker, broker_id)


class _Channel:
    """A broker's channel to the controller. A request without a response is sent again, as in the real channel when a
    connection breaks. A request taken for lost may arrive late, but not after later requests that were answered,
    because the connection was reset before them.
    """

    def __init__(self, broker: SimBroker) -> None:
        self._broker = broker
        self._answers = 0

    async def call(self, request: Message, *, timeout: float) -> Any:  # noqa: ASYNC109
        broker, world = self._broker, self._broker.world
        with trio.move_on_after(min(timeout, 3.0)):
            while True:
                with suppress(Lost):
                    try:
                        await world.network.travel(broker.id, CONTROLLER, may_be_lost=True)
                    except Lost:
                        self._may_arrive_late(request)
                        raise
                    response = world.controller.serve(broker, request)
                    await world.network.travel(CONTROLLER, broker.id, may_be_lost=True)
                    self._answers += 1
                    return response
                await trio.sleep(RETRY_SECONDS)
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)

    def _may_arrive_late(self, request: Message) -> None:
        world = self._broker.world
        answers, is_registration = self._answers, isinstance(request, BrokerRegistrationRequest)

        def arrive() -> None:
            if answers == self._answers:
                world.controller.serve(self._broker, request)

        if world.prng.random() < 0.5 and not is_registration:
            world.after(world.prng.uniform(0.05, 1.5), arrive)


class _NoChannels:
    """Channels that must not be used, because no transaction has a coordinator in this simulation."""

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        raise AssertionError("not started here")

    async def call(self, broker_id: int, request: Message, *, timeout: float) -> Any:  # noqa: ASYNC109
        raise AssertionError("not started here")


class SimBroker:
    """A broker; `is_serving` is set once its partitions follow the metadata, and `was_wiped` until the controller has
    registered the incarnation with the empty disk.
    """

    partitions: Partitions
    metadata: BrokerMetadata
    directories: LogDirectories
    contexts: Contexts

    def __init__(self, world: World, broker_id: int) -> None:
        self.world = world
        self.id = broker_id
        self.life = 0
        self.alive = False
        self.is_serving = False
        self.is_stopping = False
        self.was_wiped = False
        self.is_within_call = False  # within a call of the file layer logs are not checked
        self.is_over = False  # the code of an ended process has no further effect
        self.epoch = -1
        self.path = Path(f"/{broker_id}")
        self._scope: trio.CancelScope | None = None
        self._nursery: trio.Nursery | None = None
        self.disk = self._formatted()

    def _formatted(self) -> SimDisk:
        disk = SimDisk(self.world.now_ms, kernel_syncs=self.world.rules.kernel_takes > 0)
        disk.mkdir(self.path)
        MetaProperties(CLUSTER, self.id, directory_id(self.id)).save(self.path, disk)
        disk.sync_volume(self.path)
        return disk

    def config(self) -> ServerConfig:
        return configured(self.id, self.world.rules.fetch_bytes)

    # --- lives

    def begin(self) -> None:
        """Starts a new process."""
        self.life += 1
        self.is_over = False
        self.alive, self.is_serving, self.is_stopping = True, False, False
        self.epoch = -1
        self.world.say(self.id, "starts")
        self._compose()
        self.world.tasks.start(self._run)

    def _compose(self) -> None:
        durability = self._open_directories()
        self._committing, self._committed = trio.CancelScope(), trio.Event()
        self.metadata = BrokerMetadata(MetadataImage())
        cluster = Cluster.of(self.config(), self.metadata)
        settings = _SmallSegments(self.config(), self.metadata, self.id)
        self.families = families(
            replace(cluster, settings=settings), self._ports(cluster, durability), CLUSTER
        )
        data = self.families.data
        self.partitions, self.publisher, self.assignments, self.moves = (
            *(data.partitions, data.publisher),
            *(data.assignments, data.moves),
        )
        self.publishers: tuple[Publisher, ...] = (self.publisher,)
        self.maintenance = Maintenance(
            self.partitions, self.directories, MaintenanceTimes(), self.world.now_ms
        )
        self.contexts = self.families.contexts

    def _ports(self, cluster: Cluster, durability: Durability) -> Ports:
        self.channel = _Channel(self)
        epoch = partial(self._epoch_of, self.life)  # tasks that outlive the process keep its epoch
        self.alter_partitions = AlterPartitions(self.channel, self.id, epoch)
        self.fetchers = fetchers_of(cluster, _Connector(self), epoch)
        return Ports(
            directories=self.directories,
            durability=durability,
            controller=self.channel,
            isr_changes=self.alter_partitions,
            fetchers=self.fetchers,
            open_channels=self.open_channels,
            broker_epoch=epoch,
            report=self._report,
            kraft_version=lambda: 1,
            quorum_epoch=lambda: LeaderEpoch(1),
            now=trio.current_time,
            now_ms=self.world.now_ms,
        )

    def open_channels(self, _purpose: str) -> Channels:
        return _NoChannels()

    def _open_directories(self) -> Durability:
        directory = LogDirectory(self.path, now_ms=self.world.now_ms, files=self.disk)
        self.directories = LogDirectories([directory])
        self.commit = GroupCommit(directory.health)
        return Durability({directory.health: self.commit}, fsync=True)

    def _report(self) -> None:
        """Does nothing: regular heartbeats suffice."""

    def _epoch_of(self, life: int) -> int:
        return self.epoch if life == self.life else -1

    def start(self, task: Callable[..., Awaitable[object]], *arguments: object) -> None:
        """Starts a task that ends with the process."""
        if self._nursery is not None and self.alive:
            self._nursery.start_soon(task, *arguments)

    async def _run(self) -> None:
        life = self.life
        with trio.CancelScope() as scope:
            self._scope = scope
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                for task in self.tasks():
                    nursery.start_soon(task)
                nursery.start_soon(check_suspects, self.partitions)
        if life == self.life:
            self._nursery = None

    def tasks(self) -> tuple[Callable[[], Awaitable[object]], ...]:
        """Returns the tasks that run until the process ends."""
        return (
            *(self._commit, self.fetchers.run, self.alter_partitions.run),
            *(self.assignments.run, self.publisher.run, self._watch_disk),
            *(self._live, self._checkpoint, self._retain, self._drop_lagging),
        )

    def end(self, *, power_cut: bool) -> None:
        """Ends the process by a kill or a power cut."""
        self.alive = self.is_serving = False
        self.world.checker.process_ended(self)
        self.is_over = True
        self.release_locks()
        self._leave_disks(power_cut=power_cut)
        self._nursery = None
        if self._scope is not None:
            self._scope.cancel()
        self.world.network.process_ended(self, power_cut=power_cut)

    def release_locks(self) -> None:
        for fromkey in dict.fromkeys([*self.directories.all, self.directories.metadata]):
            fromkey._lock.release()

    def _leave_disks(self, *, power_cut: bool) -> None:
        self.disk = self.disk.after_crash(self.world.prng, power_cut=power_cut)

    def fail_next_flush(self) -> None:
        self.disk.fails = True

    def calm_disks(self) -> None:
        """Disables failures of later calls."""
        self.disk.fails = False

    def wipe(self) -> None:
        """Replaces the disk with a new one."""
        assert not self.alive
        self.disk = self._formatted()
        self.was_wiped = True
        self.world.checker.wiped(self)

    def stop(self) -> None:
        """Begins a controlled shutdown."""
        self.is_stopping = True

    async def _stopped(self) -> None:
        """Completes a controlled shutdown that the controller has permitted: closes everything once no flush is in
        progress.
        """
        self._committing.cancel()
        await self._committed.wait()
        if self.directories.offline is not None:
            return
        self.world.say(self.id, "stops cleanly")
        watermarks = at_once(self.partitions.watermarks())
        for partition in self.partitions:
            partition._end_epoch()  # as the server does before it closes its directories
        self.directories.close(broker_epoch=self.epoch, high_watermarks=watermarks)
        self.world.happened["clean stop"] += 1
        self.end(power_cut=False)
        self.world.after(self.world.prng.uniform(0.05, 0.5), self.world.restart_of(self))

    # --- metadata

    def catch_up(self) -> None:
        """Replays and publishes the controller's new records."""
        controller = self.world.controller
        while self.alive and self.metadata.image.provenance.offset < controller.offset:
            batch = controller.log[self.metadata.image.provenance.offset + 1]
            delta = MetadataDelta(self.metadata.image)
            for record in batch.records:
                delta.replay(record)
            image = delta.apply(batch.provenance)
            for publisher in self.publishers:
                publisher.publish(delta, image, Manifest(batch.provenance))
            if self.is_serving:
                self.world.checker.metadata_applied(self)

    async def _live(self) -> None:
        registered_at = await self._register()
        await self.metadata.wait_for(lambda image: image.provenance.offset >= registered_at)
        await self.publisher.activate()
        self.is_serving = True
        self.world.checker.metadata_applied(self)
        while True:
            request = BrokerHeartbeatRequest(
                broker_id=self.id,
                broker_epoch=self.epoch,
                current_metadata_offset=self.metadata.applied_offset,
                want_fence=False,
                want_shut_down=self.is_stopping,
            )
            with suppress(KafkaError):
                response = await self.channel.call(request, timeout=1.0)
                if response.should_shut_down:
                    await self._stopped()
                    return
            await trio.sleep(HEARTBEAT_SECONDS)

    async def _register(self) -> int:
        """Registers the broker; returns its epoch, which is the offset of the registration."""
        request = BrokerRegistrationRequest(
            broker_id=self.id,
            cluster_id=CLUSTER,
            incarnation_id=self.life.to_bytes(15, "big") + bytes([self.id]),
            listeners=[
                Listener(name="PLAINTEXT", host="sim", port=1000 + self.id, security_protocol=0)
            ],
            features=[],
            rack=None,
            log_dirs=[directory_id(self.id)],
            previous_broker_epoch=self.directories.previous_broker_epoch,
        )
        while True:
            with suppress(KafkaError):
                response = await self.channel.call(request, timeout=1.0)
                assert isinstance(response, BrokerRegistrationResponse)
                self.epoch = response.broker_epoch
                return response.broker_epoch
            await trio.sleep(RETRY_SECONDS)

    # --- background

    async def _commit(self) -> None:
        try:
            with suppress(StorageFailure), self._committing:
                await self.commit.run()
        finally:
            self._committed.set()

    async def _watch_disk(self) -> None:
        """Ends the broker when its only directory fails. The machine is restarted, after which the disk works again."""
        await FailedDirectories(self.directories).wait()
        self.world.say(self.id, "ends, as its disk has failed")
        self.world.happened["disk failed"] += 1
        self.end(power_cut=True)
        self.world.after(self.world.prng.uniform(0.05, 0.5), self.world.restart_of(self))

    async def _checkpoint(self) -> None:
        while True:
            await trio.sleep(CHECKPOINT_SECONDS)
            with suppress(KafkaError):
                await self.directories.save_checkpoints(at_once(self.partitions.watermarks()))

    async def _retain(self) -> None:
        while True:
            await trio.sleep(RETENTION_SECONDS)
            await self.maintenance.retain_once()

    async def _drop_lagging(self) -> None:
        while True:
            await trio.sleep(LAG_SECONDS_MAX / 2)
            for partition in self.partitions:
                partition.drop_lagging_followers()

    # --- requests

    def handle(self, request: Message, call: Call) -> Any:
        return HANDLERS[type(request)](request, self.contexts.data, call)

    def read_records(self, response: Any) -> Any:
        """Replaces pieces of files in a response by their bytes at this time. Raises Lost if the disk fails or the
        process has ended, either of which ends the connection.
        """
        if isinstance(response, FetchResponse):
            for topic in response.responses:
                for data in topic.partitions:
                    if isinstance(data.records, LogSlice):
                        try:
                            data.records = data.records.read()
                        except OSError:
                            raise Lost from None
        if self.is_over:
            raise Lost
        return response

    def connection_of(self, leader_id: int) -> Connection | None:
        """Returns this follower's connection to a leader; None if there is none."""
        return next(
            (
                connection
                for connection in self.world.network.connections
                if connection.source is self and connection.target.id == leader_id
            ),
            None,
        )
