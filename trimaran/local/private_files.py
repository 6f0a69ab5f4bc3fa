"""Private files of a local cluster: only their user may write them, and files of other users are not trusted.

Commands act on `cluster.json`: they signal its processes, remove its directories and send records to its addresses.
They also search the directories above the current one, which other users may be able to write. The rule is that of
git's `safe.directory` (CVE-2022-24765).
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from pathlib import Path

_PEER_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid: `struct ucred` of Linux


def write_private(path: Path, text: str) -> None:
    """Replaces the content. No other user may read it, since settings may hold passwords. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w") as file:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fchmod(descriptor, 0o600)  # the file may exist with wider permissions
        file.write(text)


def reason_for_distrust(path: Path) -> str | None:
    """Returns the reason why another user may have written this file or its directory; None if no other can. Raises
    OSError.
    """
    found = path.stat()
    if not is_trusted(found.st_uid):
        return f"{path} belongs to another user (uid {found.st_uid})"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"other users may write {path}"
    return reason_for_distrust_of_directory(path.parent)


def reason_for_distrust_of_directory(directory: Path) -> str | None:
    """Returns the reason why another user can create a file in the directory; None if no other can. Raises OSError."""
    found = directory.stat()
    if not is_trusted(found.st_uid):
        return f"{directory} belongs to another user (uid {found.st_uid})"
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        return f"every user may replace files in {directory}"
    return None


def is_trusted(uid: int) -> bool:
    """Whether the user is the current one, root, or the user that became root with sudo."""
    if os.geteuid() == 0 and os.environ.get("SUDO_UID") == str(uid):
        return True
    return uid in {0, os.geteuid()}


def peer_uid(connection: socket.socket) -> int:
    """Returns the user of the process that listens at the other end of a Unix socket (`SO_PEERCRED`)."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
    uid: int = _PEER_CREDENTIALS.unpack(raw)[1]
    return uid


def private_directory() -> Path:
    """Returns a directory for sockets that no other user can enter or create first; creates it if necessary.

    Raises:
        PermissionError: another user created it.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    base = Path(runtime) if runtime and Path(runtime).is_dir() else Path("/tmp")
    path = base / f"trimaran-{os.geteuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(
            f"{path} must be a directory of this user with mode 0700; remove it, or set XDG_RUNTIME_DIR"
        )
    return path
