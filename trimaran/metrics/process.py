"""The process and its loop."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import trio
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric

from trimaran.metrics.families import Families, gauge, gauges, times
from trimaran.metrics.loop_times import LoopTimes

_PROCESS = ProcessCollector(registry=CollectorRegistry())


def process_metrics() -> Iterator[Metric]:
    """CPU, memory, descriptors, bytes to and from disks. Reads a few files of /proc: for a thread."""
    yield from _PROCESS.collect()
    counted = _disk_bytes()
    for kind in counted:
        yield gauge(
            f"kafka_server_kafkaserver_linux_disk_{kind}",
            "Bytes between this process and disks, as Linux counts them.",
            counted[kind],
        )


def _disk_bytes() -> dict[str, int]:
    """Source: proc(5), /proc/pid/io; nothing where the kernel does not tell."""
    try:
        text = Path("/proc/self/io").read_text()
    except OSError:
        return {}
    pairs = dict(line.split(": ", 1) for line in text.splitlines())
    return {kind: int(pairs[kind]) for kind in ("read_bytes", "write_bytes") if kind in pairs}


def loop_metrics(loop: LoopTimes) -> Families:
    """Our one loop does what Kafka's network threads and request handlers do, so both say how idle it is."""
    idle = loop.idle_share()
    yield gauges(
        "trimaran_build_info",
        "1, with the version in its label.",
        ("version",),
        [((_version(),), 1)],
    )
    yield gauge(
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        "Share of the last minute in which the event loop was idle, from 0 to 1.",
        idle,
    )
    yield gauge(
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        "The same: requests are handled by the event loop.",
        idle,
    )
    yield times(
        "trimaran_trio_loop_lag_seconds",
        "Time of a turn of the event loop: who becomes ready in it waits at most so long.",
        [({}, loop.turns())],
    )
    yield gauge(
        "trimaran_trio_tasks", "Tasks that live.", trio.lowlevel.current_statistics().tasks_living
    )


def _version() -> str:
    try:
        return version("trimaran")
    except PackageNotFoundError:  # run from a checkout
        return "unknown"
