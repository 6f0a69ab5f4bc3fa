"""The process that listens on a port of this machine, as far as the kernel shows it (Linux)."""

from __future__ import annotations

import os
from pathlib import Path

from trimaran.errors.user_error import UserError

_LISTEN = "0A"


def ensure_port_is_free(port: int) -> None:
    """Checks that a port is free, for servers that cannot report it themselves. Raises UserError."""
    if by := listener_on(port):
        raise UserError(
            f"cannot listen on 127.0.0.1:{port}",
            f"Address already in use, by {by}",
            "stop what listens there, or choose another port",
        )


def listener_on(port: int) -> str | None:
    """Returns `process 4711 (java)`; None if no process listens or it is not visible."""
    inodes = {inode for table in ("tcp", "tcp6") for inode in _listening(table, port)}
    if not inodes:
        return None
    for process in Path("/proc").glob("[0-9]*"):
        if _holds(process, inodes):
            return f"process {process.name} ({_name(process)})"
    return None


def _listening(table: str, port: int) -> list[str]:
    try:
        rows = Path("/proc/net", table).read_text().splitlines()[1:]
    except OSError:
        return []
    fields = [row.split() for row in rows]
    return [f[9] for f in fields if f[3] == _LISTEN and int(f[1].rpartition(":")[2], 16) == port]


def _holds(process: Path, inodes: set[str]) -> bool:
    wanted = {f"socket:[{inode}]" for inode in inodes}
    try:
        descriptors = list((process / "fd").iterdir())
    except OSError:  # the process has ended meanwhile, or belongs to another user
        return False
    return any(_link(descriptor) in wanted for descriptor in descriptors)


def _link(descriptor: Path) -> str | None:
    try:
        return os.readlink(descriptor)
    except OSError:  # closed meanwhile, as the descriptor by which our own ones were listed
        return None


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return "?"
