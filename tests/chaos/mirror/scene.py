"""The environment of a fault: ZooKeeper, the mirrors of a quorum, and an outsider."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.chaos.mirror.changes import Changes
from tests.chaos.mirror.eye import Eye, Sight
from tests.chaos.mirror.fault import SESSION_MS, Fault
from tests.chaos.mirror.lying_proxy import LyingProxy
from tests.chaos.mirror.quorums import Quorum
from tests.cluster.processes import until
from tests.zkcompat.zookeeper.ensemble import Ensemble, ensemble_of_three
from trimaran.node.runtime.ports import port_of, reserve
from trimaran.zkcompat.znodes.mirror_report import REPORT_PARENTS, MirrorReport
from trimaran.zkcompat.zookeeper.server_process import ZooKeeperProcess, start_zookeeper

STOP_SECONDS = 20.0
TICKS = os.sysconf("SC_CLK_TCK")
DISK_BYTES = 32 << 20
BURST_SECONDS = 0.5
READY_SECONDS = 30.0


class NotPossibleHere(Exception):
    """Raised if a fault is not possible on this machine."""


@dataclass
class MirrorProcess:
    """A process `trimaran zk mirror` with its own directory."""

    folder: Path
    controllers: str
    connect: str
    config: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "trimaran", "zk", "mirror", "-B", self.controllers]
        command += ["-z", self.connect, "--state", str(self.folder), "-c", str(self.config)]
        with (self.folder / "mirror.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    @property
    def pid(self) -> int:
        return self.process.pid if self.process is not None else -1

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def cpu_seconds(self) -> float:
        if self.process is None:
            return 0.0
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / TICKS

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            self.process.wait(STOP_SECONDS)


@dataclass
class Keepers:
    """The ZooKeeper of a fault: one server, or three (`ensemble`)."""

    folder: Path
    port: int
    server: ZooKeeperProcess | None = None
    ensemble: Ensemble | None = None

    @property
    def connect(self) -> str:
        return self.ensemble.connect if self.ensemble else f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self.server = start_zookeeper(self.folder, self.port)

    def kill(self) -> None:
        assert self.server is not None
        self.server.kill()

    def stop(self) -> None:
        """Stops all servers, whether they are running, frozen or stopped."""
        if self.server is not None and self.server.running():
            self.server.kill()

    @property
    def three(self) -> Ensemble:
        assert self.ensemble is not None
        return self.ensemble

    def wipe(self) -> None:
        self.kill()
        shutil.rmtree(self.folder)

    def signal(self, number: signal.Signals) -> None:
        assert self.server is not None
        self.server.kill(number)

    @contextmanager
    def own_disk(self) -> Iterator[None]:
        """Puts all of the server's files on a small disk until the block ends. Raises NotPossibleHere without the right
        to mount.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(self.folder)]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NotPossibleHere(f"mounting a small disk: {done.stderr.strip()}")
        try:
            yield
        finally:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=True)

    def fill_disk(self) -> None:
        filler = os.open(self.folder / "filler", os.O_WRONLY | os.O_CREAT)
        with suppress(OSError):
            while True:
                os.write(filler, bytes(4096))
        os.close(filler)

    def empty_disk(self) -> None:
        """Frees the disk, and starts a server that has ended, as an operator would."""
        assert self.server is not None
        (self.folder / "filler").unlink()
        if not self.server.running():
            self.start()


@dataclass
class Scene:
    """The environment of one fault; `victim` is the znode that an outsider tampers with, and `config` the mirrors'
    file.
    """

    quorum: Quorum
    keepers: Keepers
    mirrors: list[MirrorProcess]
    changes: Changes
    eye: Eye
    config: Path
    proxy: LyingProxy | None = None
    victim: str = ""

    @property
    def lying(self) -> LyingProxy:
        assert self.proxy is not None
        return self.proxy

    def cpu_seconds(self) -> list[float]:
        return [mirror.cpu_seconds() for mirror in self.mirrors]

    def stop(self) -> None:
        """Stops the mirrors."""
        for mirror in self.mirrors:
            mirror.stop()

    def leading(self) -> MirrorProcess:
        """Returns the mirror that holds the claim, once it has reported."""
        pid = until(self._leading_pid, "a mirror that leads", READY_SECONDS)
        return next(mirror for mirror in self.mirrors if mirror.pid == pid)

    def _leading_pid(self) -> int | None:
        with self.outsider() as client:
            try:
                owner = client.get("/controller")[1].ephemeralOwner
                return MirrorReport.decode(client.get(MirrorReport.path(owner))[0]).pid
            except NoNodeError:
                return None

    def add_mirror(self, folder: Path) -> None:
        """Starts a mirror, and waits until it leads or is on standby."""
        connect = self.proxy.connect if self.proxy else self.keepers.connect
        mirror = MirrorProcess(folder, self.quorum.controllers, connect, self.config)
        mirror.start()
        self.mirrors.append(mirror)
        until(lambda: mirror.pid in self._told(), "the mirror's report", READY_SECONDS)
        assert self.eye.equal(READY_SECONDS)[0] < float("inf"), f"{folder} is never in step"

    def _told(self) -> set[int]:
        """Returns the process ids of mirrors that are active or on standby."""
        root = REPORT_PARENTS[-1]
        with self.outsider() as client, suppress(NoNodeError):
            found = [client.get(f"{root}/{name}")[0] for name in client.get_children(root)]
            reports = [MirrorReport.decode(data) for data in found]
            return {report.pid for report in reports if report.state in ("in step", "standby")}
        return set()

    @contextmanager
    def bursting(self) -> Iterator[None]:
        """Creates and deletes many topics at once until the block ends."""
        with _again_and_again(self.changes.another().burst, BURST_SECONDS):
            yield

    @contextmanager
    def turning(self) -> Iterator[None]:
        """Changes the leader of each of 500 partitions once per second until the block ends."""
        with _again_and_again(self.changes.another().turn_wide, 1.0):
            yield

    @contextmanager
    def outsider(self) -> Iterator[Any]:
        """Opens a ZooKeeper session as an intruder, with the mirror's password if there is one."""
        user = self.quorum.zookeeper_user
        auth = [("digest", user)] if user else []
        client = KazooClient(hosts=self.keepers.connect, timeout=10, auth_data=auth)
        client.start(READY_SECONDS)
        try:
            yield client
        finally:
            client.stop()
            client.close()


@contextmanager
def _again_and_again(change: Callable[[], None], pause: float) -> Iterator[None]:
    """Performs the action once, and then repeatedly in a thread until the block ends; raises the thread's errors at the
    end.
    """
    change()
    stop = threading.Event()
    problems: list[BaseException] = []

    def run() -> None:
        try:
            while not stop.wait(pause):
                change()
        except BaseException as problem:  # noqa: BLE001 - raised where the block ends
            problems.append(problem)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if problems:
        raise problems[0]


@contextmanager
def scene(quorum: Quorum, folder: Path, changes: Changes, fault: Fault) -> Iterator[Scene]:
    """Starts ZooKeeper and mirrors for a fault; yields once all are in step, and stops them on exit."""
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        keepers = Keepers(folder / "zookeeper", port_of(stack.enter_context(reserve())))
        if fault.three_servers:
            keepers.ensemble = stack.enter_context(ensemble_of_three(keepers.folder))
        else:
            if fault.small_disk:
                stack.enter_context(keepers.own_disk())
            keepers.start()
            stack.callback(keepers.stop)
        proxy = None
        if fault.lies:
            proxy = stack.enter_context(LyingProxy(("127.0.0.1", keepers.port)))
        config = folder / "mirror.properties"
        keys = {**quorum.properties, "zookeeper.session.timeout.ms": SESSION_MS}
        config.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        eye = stack.enter_context(Eye(quorum, keepers.connect))
        played = Scene(quorum, keepers, [], changes, eye, config, proxy)
        stack.callback(played.stop)
        for number in range(fault.mirrors):
            played.add_mirror(folder / f"mirror-{number}")
        eye.sight = Sight()
        yield played
