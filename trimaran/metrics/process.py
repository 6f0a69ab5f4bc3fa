"""Metrics of the process and its event loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import trio
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric

from trimaran.metrics.families import Table, families, gauge, gauges, times
from trimaran.metrics.loop_times import LoopTimes

_PROCESS = ProcessCollector(registry=CollectorRegistry())

_DISK = "kafka_server_kafkaserver_linux_disk"
DISK_METRICS: Table[Mapping[str, int]] = (
    gauge(
        f"{_DISK}_read_bytes",
        "Bytes between this process and disks, as Linux counts them.",
        lambda counted: counted.get("read_bytes"),
    ),
    gauge(
        f"{_DISK}_write_bytes",
        "Bytes between this process and disks, as Linux counts them.",
        lambda counted: counted.get("write_bytes"),
    ),
)

# The loop does the work of Kafka's network threads and request handlers, so both idle metrics have its value.
LOOP_METRICS: Table[LoopTimes] = (
    gauges(
        "trimaran_build_info",
        "1, with the version in its label.",
        ("version",),
        "1",
        lambda _: [((_version(),), 1)],
    ),
    gauge(
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        "Share of the last minute in which the event loop was idle, from 0 to 1.",
        lambda loop: loop.idle_share(),
    ),
    gauge(
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        "The same: requests are handled by the event loop.",
        lambda loop: loop.idle_share(),
    ),
    times(
        "trimaran_trio_loop_lag_seconds",
        "Duration of a turn of the event loop; a task that becomes ready during it waits at most this long.",
        lambda loop: loop.turns(),
    ),
    gauge(
        "trimaran_trio_tasks",
        "Running trio tasks.",
        lambda _: trio.lowlevel.current_statistics().tasks_living,
    ),
)


def process_metrics() -> Iterator[Metric]:
    """Yields CPU, memory, descriptors, and bytes to and from disks. Call it in a thread: it reads a few files of
    /proc.
    """
    yield from _PROCESS.collect()
    yield from (family for family in families(DISK_METRICS, _disk_bytes()) if family is not None)


def _disk_bytes() -> dict[str, int]:
    """Returns bytes read and written; nothing if the kernel does not count them. Source: proc(5), /proc/pid/io."""
    try:
        text = Path("/proc/self/io").read_text()
    except OSError:
        return {}
    pairs = dict(line.split(": ", 1) for line in text.splitlines())
    return {kind: int(pairs[kind]) for kind in ("read_bytes", "write_bytes") if kind in pairs}


def _version() -> str:
    try:
        return version("trimaran")
    except PackageNotFoundError:  # trimaran runs from a checkout
        return "unknown"
