"""The processes of a query: driver, executors and their Python workers, found below /proc."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class Process(NamedTuple):
    """A process, and the parts of its command."""

    pid: int
    parent: int
    session: int
    words: tuple[str, ...]

    @property
    def is_java(self) -> bool:
        return bool(self.words) and Path(self.words[0]).name == "java"


def processes() -> list[Process]:
    """Returns all running processes."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if fields[0] != "Z":
                    parent, session = int(fields[1]), int(fields[3])
                    found.append(Process(int(folder.name), parent, session, tuple(words)))
    return found


def of_session(found: Iterable[Process], session: int) -> list[Process]:
    """Returns the processes that a driver and its descendants have started."""
    return sorted(process for process in found if process.session == session)


def drivers(found: Iterable[Process]) -> list[int]:
    """Returns the driver's JVMs, then its Python."""
    found = list(found)
    java = [p.pid for p in found if p.is_java and EXECUTOR not in p.words]
    return [*java, *(p.pid for p in found if p.pid == p.session)]


def executors(found: Iterable[Process]) -> list[int]:
    """Returns the executors' JVMs."""
    return [p.pid for p in found if p.is_java and EXECUTOR in p.words]


def workers(found: Iterable[Process]) -> list[int]:
    """Returns the Python processes of executors that run tasks: a daemon of each executor forks them."""
    found = list(found)
    hosts = set(executors(found))
    daemons = {p.pid for p in found if p.parent in hosts and not p.is_java}
    return [p.pid for p in found if p.parent in daemons]


def kill(pids: Iterable[int]) -> None:
    """Sends SIGKILL; some processes may have ended already."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
