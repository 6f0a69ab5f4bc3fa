"""A broker with several log directories, each on its own disk; disks fail, are missing at a start, and return. In
addition to the real parts of `SimBroker`, the opening of directories, moves between them, reports about them to the
controller, the lifecycle with registration and heartbeats, and the recovery after a crash are real. The metadata log
has its own directory and disk, which fails, too; only the writes of the metadata log are simulated.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import trio

from tests.simulation.partitions.broker import (
    CLUSTER,
    HEARTBEAT_SECONDS,
    SimBroker,
    configured,
    directory_id,
)
from tests.simulation.partitions.disk import SimDisk
from tests.simulation.partitions.disk_faults import (
    Damage,
    DiskFault,
    damage,
    fails_with,
    os_error,
    repair,
    small_files,
)
from trimaran.broker.background.maintenance import Maintenance, MaintenanceTimes
from trimaran.broker.process.failed_directories import watch_directories
from trimaran.broker.process.lifecycle import BrokerIdentity, BrokerState, Lifecycle, LifecycleTimes
from trimaran.broker.process.server import _recover_logs
from trimaran.broker.storage.broker_storage import open_storage
from trimaran.broker.storage.unfinished_moves import finish_moves
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.meta_properties import MetaProperties, MetaPropertiesError
from trimaran.log.durability.group_commit import Durability
from trimaran.log.durability.health import StorageFailure
from trimaran.node.config.server import ServerConfig
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.metadata.image import LOST_DIRECTORY
from trimaran.wire.errors import KafkaError
from trimaran.wire.text.endpoint import Endpoint

if TYPE_CHECKING:
    from tests.simulation.partitions.world import World

NAMES = ("a", "b", "c")
PURGE_SECONDS, DELETE_DELAY_SECONDS = 0.4, 0.3
LEAVE_SECONDS = 3.0


class StoringBroker(SimBroker):
    """A broker; `broken` has the directories whose disks fail until they are repaired, with the error, and `away` those
    that are missing in this process.
    """

    def __init__(self, world: World, broker_id: int) -> None:
        self.disks: dict[Path, SimDisk] = {}
        self.armed: dict[Path, DiskFault] = {}
        self.broken: dict[Path, int] = {}
        self.away: dict[Path, int] = {}
        self.damaged: list[tuple[Path, Damage]] = []
        super().__init__(world, broker_id)

    @property
    def absent(self) -> set[Path]:
        """The directories that this process cannot use, or no longer can."""
        online = {directory.path for directory in self.directories.online}
        return self.disks.keys() - online

    def config(self) -> ServerConfig:
        rules = self.world.rules
        paths = ",".join(f"/{self.id}/{name}" for name in NAMES[: rules.directories])
        places = {"log.dirs": paths, "metadata.log.dir": f"/{self.id}/metadata"}
        return configured(self.id, rules.fetch_bytes, **places)

    # --- disks

    @property
    def metadata_path(self) -> Path:
        return self.config().metadata_directory

    def disk_of(self, path: Path) -> SimDisk:
        return self.disks.get(path, self.disk)

    def _formatted(self) -> SimDisk:
        """Formats all disks; returns that of the metadata log."""
        self.armed, self.broken, self.away, self.damaged = {}, {}, {}, []
        paths = self.config().log_directories
        self.disks = {path: self._disk(path, 1 + paths.index(path)) for path in paths}
        return self._disk(self.config().metadata_directory, 0)

    def _disk(self, path: Path, number: int) -> SimDisk:
        disk = SimDisk(self.world.now_ms, kernel_syncs=self.world.rules.kernel_takes > 0)
        disk.mkdir(path.parent)
        disk.mkdir(path)
        MetaProperties(CLUSTER, self.id, directory_id(self.id, number)).save(path, disk)
        disk.sync_volume(path)
        self._watch(path, disk)
        return disk

    def _watch(self, path: Path, disk: SimDisk) -> None:
        disk.on_call = partial(self._called, path)

    def _called(self, directory: Path, call: str, path: Path, target: Path | None) -> None:
        """Handles a call of the file layer: raises OSError for a failure, or ends the process."""
        world = self.world
        error = self.broken.get(directory, self.away.get(directory, 0))
        if error:
            if fails_with(error, call):
                raise os_error(error, path)
            return
        fault = self.armed.get(directory)
        paths = [path] if target is None else [path, target]
        if fault is None or not fault.meets(call, paths):
            return
        if fault.dies and self._nursery is None:
            return  # the process is still starting
        del self.armed[directory]
        if fault.dies:
            world.say(self.id, "ends within", call, *paths)
            world.happened["died within a call"] += 1
            self._end_within_call()
            return
        world.say(self.id, "fails:", call, *paths, errno.errorcode[fault.error])
        world.happened[f"{call} failed"] += 1
        world.happened["directory failed"] += 1
        if fault.lasts:
            self.broken[directory] = fault.error
        raise os_error(fault.error, path)

    def _end_within_call(self) -> None:
        self.is_within_call = True
        try:
            self.end(power_cut=self.world.prng.random() < 0.5)
        finally:
            self.is_within_call = False
        self.world.after(self.world.prng.uniform(0.01, 1.0), self.world.restart_of(self))

    def _leave_disks(self, *, power_cut: bool) -> None:
        super()._leave_disks(power_cut=power_cut)
        prng = self.world.prng
        for path, disk in self.disks.items():
            # A disk with a failed sync is mounted again, with its durable content.
            self.disks[path] = left = disk.after_crash(prng, power_cut=power_cut or disk.has_failed)
            self._watch(path, left)
        self._watch(self.metadata_path, self.disk)
        self.world.storage.disks_left(self)

    def fail_next_flush(self) -> None:
        self.world.prng.choice(list(self.disks.values())).fails = True

    def arm(self, fault: DiskFault) -> None:
        path = self.world.prng.choice(list(self.disks))
        if not fault.place and self.world.prng.random() < self.world.faults.metadata_fails:
            path = self.metadata_path
        self.world.say(self.id, path, "will fail:", fault)
        self.armed[path] = fault

    def calm_disks(self) -> None:
        for disk in self.disks.values():
            disk.fails = False
        self.armed.clear()

    @property
    def is_lacking(self) -> bool:
        """Whether this process lacks something that its disks should have."""
        return bool(self.broken or self.away or self.damaged or not self.alive) or bool(
            self.directories.offline_ids()
            or self.directories.failed_at_start
            or any(
                partition.state.directory_of(self.id) == LOST_DIRECTORY
                for partition in self.partitions
            )
        )

    def mend(self) -> bool:
        """Repairs everything for the next start; returns whether this process lacked something."""
        was_lacking = self.is_lacking
        self._restore()
        self.broken, self.away = {}, {}
        return was_lacking

    def _restore(self, name: str = "") -> None:
        """Restores damaged files, as the error advises; files that were written since are kept."""
        for path, damaged in list(self.damaged):
            if name in ("", damaged.path.name):
                self.damaged.remove((path, damaged))
                if repair(self.disk_of(path), damaged):
                    self.world.say(self.id, "gets back", damaged.path)

    # --- a start

    def begin(self) -> None:
        self.away = {}
        if not self.world.is_calm:
            self._draw_disks(self.world.prng)
        elif self.broken.keys() >= self.disks.keys() or self.metadata_path in self.broken:
            self.broken.clear()
        try:
            super().begin()
        except (MetaPropertiesError, KafkaError) as error:
            self.alive = False
            self.world.say(self.id, "does not start:", error)
            self.world.happened["did not start"] += 1
            if isinstance(error, KafkaError):
                self.world.happened["no directory read"] += 1
                self.broken.clear()
            self.away = {}
            self._restore("meta.properties")
            self.world.after(self.world.prng.uniform(0.05, 0.5), self.world.restart_of(self))

    def _draw_disks(self, prng: random.Random) -> None:
        """Draws the disks that are repaired, missing or damaged at this start."""
        faults = self.world.faults
        for path in list(self.broken):
            if prng.random() < 0.6:
                del self.broken[path]
        whole = [path for path in self.disks if path not in self.broken]
        prng.shuffle(whole)
        for path in (*whole, self.metadata_path):
            # All disks at once, or the disk of the metadata log, are rarely missing, because the broker then does not
            # start.
            is_needed = path in (*whole[:1], self.metadata_path)
            if prng.random() < faults.away * (0.1 if is_needed else 1.0):
                self.away[path] = prng.choice((errno.EIO, errno.EACCES))
                self.world.say(self.id, path, "is away")
                self.world.happened["directory away"] += 1
        self.away |= {path: 0 for path in whole[:1] if prng.random() < faults.away * 0.1}
        if faults.damage and self.world.storage.may_damage(self) and prng.random() < faults.damage:
            self._damage(prng)

    def _damage(self, prng: random.Random) -> None:
        paths = (*self.disks, self.metadata_path)
        files = [
            (path, small_file)
            for path in paths
            for small_file in small_files(self.disk_of(path), path)
        ]
        kinds = sorted({file.name for _, file in files})
        if not kinds:
            return
        kind = prng.choice(kinds)
        path, file = prng.choice([file for file in files if file[1].name == kind])
        if any(file == damaged.path for _, damaged in self.damaged):
            return
        self.damaged.append((path, damage(self.disk_of(path), file, prng)))
        self.world.say(self.id, file, "is damaged")
        self.world.happened["small file damaged"] += 1

    def open_directory(self, path: Path) -> LogDirectory:
        """Opens the directory on its disk; for a disk that is not mounted, the empty mount point."""
        disk = self.disk_of(path)
        if self.away.get(path) == 0:
            self.world.happened["not mounted"] += 1
            disk = SimDisk(self.world.now_ms)
            disk.mkdir(path.parent)
            disk.mkdir(path)
        return LogDirectory(path, now_ms=self.world.now_ms, files=disk)

    def _open_directories(self) -> Durability:
        self.storage = open_storage(self.config(), None)
        self.directories = self.storage.directories
        return self.storage.durability

    def _compose(self) -> None:
        super()._compose()
        world = self.world
        identity = BrokerIdentity(
            node_id=self.id,
            cluster_id=CLUSTER,
            listeners=[Endpoint("PLAINTEXT", "sim", 1000 + self.id, 0)],
            features=[],
            rack=None,
            directory_ids=self.directories.online_ids(),
            previous_broker_epoch=self.directories.previous_broker_epoch,
        )
        self.lifecycle = Lifecycle(
            self.channel,
            identity,
            LifecycleTimes(HEARTBEAT_SECONDS, session=1.0, registration=1000.0),
            applied_offset=lambda: self.metadata.applied_offset,
            offline_directories=self.directories.offline_ids,
        )
        self.lifecycle.incarnation_id = self.life.to_bytes(15, "big") + bytes([self.id])
        self.maintenance = Maintenance(
            self.partitions,
            self.directories,
            MaintenanceTimes(delete_delay=DELETE_DELAY_SECONDS),
            world.now_ms,
        )
        self._parts: Any = SimpleNamespace(
            storage=self.storage,
            families=self.families,
            lifecycle=self.lifecycle,
            metadata=self.metadata,
            config=self.config(),
        )

    def catch_up(self) -> None:
        """Replays the controller's records, and writes to the metadata log; its disk may fail."""
        before = self.metadata.image.provenance.offset
        super().catch_up()
        after = self.metadata.image.provenance.offset
        if after == before or not self.alive:
            return
        with suppress(KafkaError), self.directories.metadata.health.guard("writing"):
            file = self.disk.open(self.metadata_path / "metadata.log", create=True)
            self.disk.pwrite(file, after.to_bytes(8, "big"), 0)
            self.disk.fdatasync(file)

    # --- a life

    def tasks(self) -> tuple[Callable[[], Awaitable[object]], ...]:
        return (*super().tasks(), self.lifecycle.run, self._purge)

    def _epoch_of(self, life: int) -> int:
        return self.lifecycle.epoch if life == self.life else -1

    def _report(self) -> None:
        self.lifecycle.report()

    async def _live(self) -> None:
        await self.lifecycle.state.wait_not(BrokerState.STARTING)
        self.epoch = self.lifecycle.epoch
        await self.metadata.wait_for(lambda image: self.epoch <= image.provenance.offset)
        await finish_moves(self.directories, self.metadata.image.topics, self.id)
        await _recover_logs(self._parts)
        await self.publisher.activate()
        self.start(self.moves.run)
        self.is_serving = True
        self.world.checker.metadata_applied(self)
        self.lifecycle.unfence()

    async def _commit(self) -> None:
        try:
            with self._committing:
                async with trio.open_nursery() as nursery:
                    for directory in self.storage.commits:
                        nursery.start_soon(self.storage.commit, directory)
        finally:
            self._committed.set()

    async def _watch_disk(self) -> None:
        """Ends the broker when all directories have failed. The machine is restarted."""
        try:
            await watch_directories(self._parts)
        except StorageFailure:
            self.world.say(self.id, "ends, as its disks have failed")
            self.world.happened["disk failed"] += 1
            self.end(power_cut=True)
            self.world.after(self.world.prng.uniform(0.05, 0.5), self.world.restart_of(self))

    async def _purge(self) -> None:
        while True:
            await trio.sleep(PURGE_SECONDS)
            await self.maintenance.purge_once()

    def stop(self) -> None:
        if not self.is_stopping:
            super().stop()
            self.start(self._take_leave)

    async def _take_leave(self) -> None:
        await self.lifecycle.shut_down(LEAVE_SECONDS)
        await self._stopped()

    async def _stopped(self) -> None:
        self._committing.cancel()
        await self._committed.wait()
        self.world.say(self.id, "stops cleanly")
        watermarks = at_once(self.partitions.watermarks())
        self.moves.close()
        for partition in self.partitions:
            partition._end_epoch()
        with suppress(KafkaError):
            self.directories.close(broker_epoch=self.epoch, high_watermarks=watermarks)
        if not self.alive:
            return  # the process has died meanwhile
        self.world.happened["clean stop"] += 1
        self.end(power_cut=False)
        self.world.after(self.world.prng.uniform(0.05, 0.5), self.world.restart_of(self))
