"""CPU seconds and memory of processes, read from `/proc`: they vary less than wall-clock time on a shared machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pids: Sequence[int]) -> float:
    """Returns the user and system time that the processes have used so far; a process that has ended counts as zero."""
    return sum(_cpu_ticks(pid) for pid in pids) / TICKS_PER_SECOND


def _cpu_ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def rss_mib(pid: int) -> float:
    """Returns the resident memory, including shared pages."""
    return _status_kib(pid, "VmRSS") / 1024


def pss_mib(pid: int) -> float:
    """Returns the memory, with shared pages divided among the processes that share them."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    return (
        next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) / 1024
    )


def _status_kib(pid: int, key: str) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith(key)), 0)


def below() -> list[tuple[int, str]]:
    """Yields (pid, name) of all descendants of this process."""
    children: dict[int, list[tuple[int, str]]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                head, _, tail = (folder / "stat").read_text().rpartition(")")
                parent = int(tail.split()[1])
                children.setdefault(parent, []).append((int(folder.name), head.partition("(")[2]))
    found = list(children.get(os.getpid(), ()))
    for pid, _ in found:
        found += children.get(pid, ())
    return found


def cpu_seconds_with_children() -> float:
    """Returns the user and system time of this process and all its descendants, including those that have ended."""
    ticks = 0
    for pid in (os.getpid(), *(pid for pid, _ in below())):
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / TICKS_PER_SECOND


def peak_rss_mib(pid: int) -> float:
    """Returns the peak of the resident memory, including shared pages."""
    return _status_kib(pid, "VmHWM") / 1024


@dataclass
class Usage:
    """The resources that a measured block used."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0


@contextmanager
def measured(pids: Sequence[int]) -> Iterator[Usage]:
    """Measures a block: wall clock, and CPU time of the given processes."""
    usage = Usage()
    began, cpu = time.perf_counter(), cpu_seconds(pids)
    yield usage
    usage.seconds = time.perf_counter() - began
    usage.cpu_seconds = cpu_seconds(pids) - cpu


def percentile(values: Sequence[float], share: float) -> float:
    """Returns the value below which `share` (0 to 1) of the values are."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
