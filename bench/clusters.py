"""The two measured systems behind one interface: start, bootstrap addresses, process ids, kill, restart, stop."""

from __future__ import annotations

import compileall
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.interop import apache_kafka

# Every append reaches the disk before its response: this is the default of ours, and a setting of Kafka's.
KAFKA_FSYNC = {"log.flush.interval.messages": "1"}
OURS_WRITE_BEHIND = {"trimaran.log.fsync": "none"}

ROOT = Path(__file__).parent.parent
PACKAGES = ("broker", "log", "node", "quorum", "trimaran", "wire", "zkcompat")


def settings_for(system: str, *, fsync: bool) -> Mapping[str, str]:
    """Returns the settings of both systems, with an fsync before every response or without."""
    if system == "ours":
        return {} if fsync else OURS_WRITE_BEHIND
    return KAFKA_FSYNC if fsync else {}


@dataclass
class Cluster:
    """A running cluster of either system."""

    system: str
    bootstrap: str
    controller_bootstrap: str
    pids: Callable[[], list[int]]
    pid_of: Callable[[int], int]
    kill: Callable[[int], None]
    stop: Callable[[int], None]
    start: Callable[[int], None]
    directory: Path


def compile_packages() -> None:
    """Compiles the packages, so that nodes start like those of an installed package even if PYTHONDONTWRITEBYTECODE is
    set: compiling all modules takes longer than a start.
    """
    for package in PACKAGES:
        compileall.compile_dir(ROOT / package, quiet=1)


def trimaran(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "trimaran", *words], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"trimaran {' '.join(words)}: {done.stderr}")
    return done.stdout


def _terminate(pid: int) -> None:
    """Ends a process of the local cluster as an operator would, and waits for its end."""
    os.kill(pid, signal.SIGTERM)
    while Path(f"/proc/{pid}/stat").exists():
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.01)


@contextmanager
def _scratch(prefix: str) -> Iterator[Path]:
    """Yields a temporary directory. SIGTERM unwinds its `with` block, so no node outlives a bench that gets the
    signal.
    """
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    data = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield data
    finally:
        shutil.rmtree(data, ignore_errors=True)
        signal.signal(signal.SIGTERM, before)


@contextmanager
def ours(
    controllers: int, brokers: int, settings: Mapping[str, str] | None = None
) -> Iterator[Cluster]:
    """Starts a local cluster of ours in a temporary directory."""
    words = [w for key, value in (settings or {}).items() for w in ("--override", f"{key}={value}")]
    sizes = ["--controllers", str(controllers), "--brokers", str(brokers)]
    compile_packages()
    with _scratch("bench-ours-") as data:
        try:
            up = json.loads(trimaran("up", "-d", "--data", str(data), "-o", "json", *sizes, *words))

            def nodes() -> list[dict[str, int]]:
                return [
                    n for n in json.loads((data / "cluster.json").read_text())["nodes"] if n["pid"]
                ]

            yield Cluster(
                "trimaran",
                up["bootstrap"],
                up["controller_bootstrap"],
                lambda: [n["pid"] for n in nodes()],
                lambda node_id: next(n["pid"] for n in nodes() if n["id"] == node_id),
                lambda node_id: (
                    trimaran("chaos", "kill", str(node_id), "--data", str(data)) and None
                ),
                lambda node_id: _terminate(next(n["pid"] for n in nodes() if n["id"] == node_id)),
                lambda node_id: (
                    trimaran("chaos", "restart", str(node_id), "--data", str(data)) and None
                ),
                data,
            )
        finally:
            if (data / "cluster.json").exists():
                trimaran("down", "--data", str(data))


@contextmanager
def kafka(
    controllers: int, brokers: int, settings: Mapping[str, str] | None = None
) -> Iterator[Cluster]:
    """Starts an Apache Kafka 4.4 cluster in a temporary directory."""
    with (
        _scratch("bench-kafka-") as data,
        apache_kafka.running(
            data, controllers=controllers, brokers=brokers, settings=settings
        ) as cluster,
    ):

        def node(node_id: int) -> apache_kafka.Node:
            return next(n for n in cluster.nodes if n.id == node_id)

        def pid_of(node_id: int) -> int:
            process = node(node_id).process
            assert process is not None
            return process.pid

        yield Cluster(
            "Kafka 4.4",
            cluster.bootstrap,
            cluster.controller_bootstrap,
            lambda: cluster.pids,
            pid_of,
            lambda node_id: cluster.kill(node(node_id)),
            lambda node_id: cluster.kill(node(node_id), signal.SIGTERM),
            lambda node_id: cluster.start_node(node(node_id)),
            data,
        )


Opener = Callable[[int, int, Mapping[str, str] | None], AbstractContextManager[Cluster]]
SYSTEMS: dict[str, Opener] = {"ours": ours, "kafka": kafka}


def systems_of(only: str | None) -> list[str]:
    """Returns the systems to measure: the given one, or all that can run here; prints the omitted ones."""
    systems = [only] if only else list(SYSTEMS)
    if "kafka" in systems and (reason := apache_kafka.why_not()):
        print(f"bench: Apache Kafka is left out, {reason}", file=sys.stderr)
        systems.remove("kafka")
    return systems
