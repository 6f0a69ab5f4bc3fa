"""Starts a real ZooKeeper server (standalone) from the jars inside pyspark.

Synchronous and free of trio, so that the supervisor and test fixtures may use it. pyspark is found, never imported.
Five of its jars are enough: ZooKeeper, jute, slf4j without a backend (ZooKeeper then logs nothing), dropwizard's
metrics (the server's own statistics) and snappy (named by the snapshot writer even when snapshots are plain).
Ensembles, TLS and SASL are ZooKeeper's own settings; for production use run a separate ZooKeeper.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from trimaran.node.runtime.java import javas
from trimaran.node.runtime.parent_death import end_with_parent
from trimaran.node.runtime.ports import port_of, reserve
from trimaran.wire.identity import Address

JARS = ("zookeeper-[0-9]*", "zookeeper-jute-*", "slf4j-api-*", "metrics-core-*", "snappy-java-*")
# Jars for TLS, which ZooKeeper delegates to Netty; a server with users needs Netty's classes, too.
SECURED_JARS = ("netty-*",)
SECURED_KEYS = ("secureClientPort", "authProvider.")
NO_SETTINGS: Mapping[str, str] = {}
MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
JVM_OPTIONS = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Dslf4j.internal.verbosity=ERROR",
    "-Djava.net.preferIPv4Stack=true",
    # The transaction log grows by this many KiB at a time; ZooKeeper's own 64 MiB only wastes disk here.
    "-Dzookeeper.preAllocSize=4096",
)
# A start takes 0.4 s on an idle machine; a loaded CI machine needs ten times that.
READY_SECONDS = 15.0
STOP_SECONDS = 5.0
POLL_SECONDS = 0.01
WORD_BYTES_MAX = 1 << 20  # `mntr` and `cons` are a few KiB; a peer that sends more is not ZooKeeper


class ZooKeeperUnavailableError(Exception):
    """ZooKeeper cannot be started here. `fix` is the remedy for the user."""

    def __init__(self, why: str, fix: str = "trimaran doctor shows what is missing") -> None:
        super().__init__(why)
        self.fix = fix


@dataclass(slots=True)
class ZooKeeperProcess:
    """A running server. `stop` ends it; dropping the object does not."""

    pid: int
    port: int
    data_dir: Path
    host: str = "127.0.0.1"
    _process: subprocess.Popen[bytes] = field(kw_only=True, repr=False)

    @property
    def connect(self) -> str:
        """Returns the value for `zookeeper.connect`."""
        return str(Address(self.host, self.port))

    def running(self) -> bool:
        return self._process.poll() is None

    def kill(self, signum: int = signal.SIGKILL) -> None:
        """Sends a signal; after SIGKILL it waits for the end of the process."""
        self._process.send_signal(signum)
        if signum == signal.SIGKILL:
            self._process.wait()

    def wait(self) -> int:
        """Waits until the server has ended, by itself or by a signal, and returns its exit code."""
        return self._process.wait()

    def stop(self) -> None:
        """Ends the server; kills it if it does not end in time."""
        if not self.running():
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()


def find_jars() -> list[Path]:
    """Returns the class path in the installed pyspark; empty if pyspark is not installed or lacks one of the jars."""
    for folder in _pyspark_folders():
        found = [sorted((folder / "jars").glob(f"{pattern}.jar")) for pattern in JARS]
        if all(found):
            return [jars[-1] for jars in found]
    return []


def missing_part() -> ZooKeeperUnavailableError | None:
    """Returns None if a server can be started, else the error that names the missing part."""
    if next(javas(), None) is None:
        fix = "install a JDK 17, or: pip install 'trimaran[java]'"
        return ZooKeeperUnavailableError("there is no Java", fix)
    if not find_jars():
        return ZooKeeperUnavailableError(
            "its jars come with PySpark, which is not installed", "pip install 'trimaran[zk]'"
        )
    return None


def start_zookeeper(
    data_dir: Path,
    port: int = 0,
    *,
    tick_ms: int = 2000,
    own_process_group: bool = False,
    stop_with_parent: bool = False,
    settings: Mapping[str, str] = NO_SETTINGS,
    jvm_options: Sequence[str] = (),
) -> ZooKeeperProcess:
    """Starts a server on 127.0.0.1 and returns when it serves requests.

    `port` 0 takes a free one. Sessions may last from 2 to 20 ticks. With `stop_with_parent` it ends with this process,
    however that ends (Linux; from the main thread only). `settings` precede our own in its file; with a key of
    `SECURED_KEYS` the server gets the required jars. Raises `ZooKeeperUnavailableError`.
    """
    if error := missing_part():
        raise error
    data_dir.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        if not port:  # the JVM takes a while to start listening
            port = port_of(held.enter_context(reserve()))
        config = data_dir / "zoo.cfg"
        config.write_text(_properties(data_dir, port, tick_ms, settings))
        jars = SECURED_JARS if any(key.startswith(SECURED_KEYS) for key in settings) else ()
        command = _command(config, jars, jvm_options)
        return _start(data_dir, port, command, own_process_group, stop_with_parent)


def _start(
    data_dir: Path,
    port: int,
    command: Sequence[str],
    own_process_group: bool,
    stop_with_parent: bool,
) -> ZooKeeperProcess:
    output = data_dir / "zookeeper.out"
    with output.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=own_process_group,
            preexec_fn=partial(end_with_parent, os.getpid())  # noqa: PLW1509 - it takes no lock
            if stop_with_parent
            else None,
        )
    server = ZooKeeperProcess(process.pid, port, data_dir, _process=process)
    try:
        _wait_ready(server, output)
    except BaseException:  # Runs even after Ctrl-C: an orphaned server would hold the port.
        server.stop()
        raise
    return server


def four_letter_word(host: str, port: int, word: bytes, timeout: float = 1.0) -> str:
    """Sends `srvr`, `mntr`, … and returns the response; raises OSError if the server does not respond."""
    answer = bytearray()
    with socket.create_connection((host, port), timeout) as connection:
        connection.settimeout(timeout)
        connection.sendall(word)
        while piece := connection.recv(65536):
            answer += piece
            if len(answer) > WORD_BYTES_MAX:
                raise OSError(f"{Address(host, port)} answers {word!r} without end")
    return answer.decode("utf-8", "replace")


def _wait_ready(server: ZooKeeperProcess, output: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    # `ruok` is answered before the data is loaded; only `srvr` with a mode means that requests are served.
    while not _serves(server):
        if not server.running() or time.monotonic() > deadline:
            tail = output.read_text("utf-8", "replace")[-2000:]
            raise ZooKeeperUnavailableError(
                f"ZooKeeper did not become ready on port {server.port}: {tail.strip() or 'no output'}"
            )
        time.sleep(POLL_SECONDS)


def _serves(server: ZooKeeperProcess) -> bool:
    try:
        return "Mode:" in four_letter_word(server.host, server.port, b"srvr")
    except OSError:
        return False


def _command(config: Path, jars: Sequence[str], options: Sequence[str]) -> Sequence[str]:
    found = find_jars()
    folder = found[0].parent
    more = [jar for pattern in jars for jar in sorted(folder.glob(f"{pattern}.jar"))]
    class_path = os.pathsep.join(map(str, [*found, *more]))
    java = str(next(javas(), "java"))
    return (java, *JVM_OPTIONS, *options, "-cp", class_path, MAIN_CLASS, str(config))


def _properties(data_dir: Path, port: int, tick_ms: int, settings: Mapping[str, str]) -> str:
    own = {
        "dataDir": data_dir.resolve() / "data",
        "clientPort": port,
        "clientPortAddress": "127.0.0.1",
        "tickTime": tick_ms,
        "maxSessionTimeout": 40_000,  # 20 ticks, ZooKeeper's default, for any length of a tick.
        "maxClientCnxns": 0,  # All clients are 127.0.0.1, and ZooKeeper's limit counts by address.
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "*",
        "autopurge.snapRetainCount": 3,
        "autopurge.purgeInterval": 1,
    }
    return "".join(f"{key}={value}\n" for key, value in {**own, **settings}.items())


def _pyspark_folders() -> list[Path]:
    spec = find_spec("pyspark")
    return [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
