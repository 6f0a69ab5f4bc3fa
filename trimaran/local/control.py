"""The connection between the command line and the supervisor: one JSON object per line, over a Unix socket.

Request: `{"command": "kill", "node": "broker-11"}`; answer: `{"ok": true, …}` or `{"ok": false, "error": "…"}`, or
the `what`, `why` and `fix` of an error for the user instead of `error`. The path of a Unix socket has at most about 100
bytes, so a cluster in a deep directory has its socket in a private directory of this user; `cluster.json` has its path.
Both ends are processes of one user.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from pathlib import Path
from typing import Any

from trimaran.errors.user_error import Exit, UserError
from trimaran.local.private_files import is_trusted, peer_uid, private_directory

SOCKET_NAME = "supervisor.sock"
# A separate command that wraps the intended one, so that an older supervisor does nothing.
DRY_RUN = "dry-run"
PATH_BYTES_MAX = 100  # sun_path has 108 on Linux, 104 on macOS
LINE_BYTES_MAX = 64 * 1024  # the longest response, `ps` of twenty nodes, has about 4 KiB
# The longest command is a clean stop of all nodes, each with its own deadline.
ANSWER_SECONDS_MAX = 60.0


def socket_path(data: Path) -> Path:
    """Returns the path at which the supervisor of this data directory listens. Raises OSError."""
    path = data.resolve() / SOCKET_NAME
    if len(str(path).encode()) <= PATH_BYTES_MAX:
        return path
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:16]
    return private_directory() / f"{digest}.sock"


def listen(path: Path) -> socket.socket:
    """Opens the supervisor's end, to which only this user may connect."""
    path.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)  # other users could connect to a socket before a later chmod
    try:
        server.bind(str(path))
    finally:
        os.umask(before)
    server.listen(16)
    server.setblocking(False)
    return server


def read_line(connection: socket.socket) -> dict[str, Any]:
    """Reads one JSON object; empty if the other side closed first."""
    received = b""
    while not received.endswith(b"\n") and len(received) < LINE_BYTES_MAX:
        chunk = connection.recv(4096)
        if not chunk:
            break
        received += chunk
    return dict(json.loads(received)) if received else {}


def write_line(connection: socket.socket, message: dict[str, Any]) -> None:
    """Sends one JSON object."""
    connection.sendall(json.dumps(message).encode() + b"\n")


def ask(path: str, command: str, *, dry_run: bool = False, **arguments: Any) -> dict[str, Any]:
    """Sends a command to the supervisor and returns its response; raises UserError if it cannot be reached or refuses.

    In a dry run it responds with what it would do, or refuses as usual, and changes nothing.
    """
    request = {"command": command, **arguments}
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(ANSWER_SECONDS_MAX)
            connection.connect(path)
            _check_peer(connection)
            write_line(connection, {"command": DRY_RUN, "of": request} if dry_run else request)
            answer = read_line(connection)
    except OSError as error:
        raise UserError(
            "the supervisor of the local cluster does not answer",
            f"{path}: {error.strerror or error}",
            "trimaran ps shows whether it is running; start it with trimaran up -d",
            exit_code=Exit.CANNOT_CONNECT,
        ) from error
    if "what" in answer:
        raise UserError(answer["what"], answer["why"], answer["fix"])
    if not answer.get("ok"):
        raise UserError(
            f"the local cluster refused '{command}'",
            str(answer.get("error", "it closed the connection")),
            "trimaran ps shows the nodes and their states",
        )
    return answer


def _check_peer(connection: socket.socket) -> None:
    """Raises PermissionError if the socket belongs to another user."""
    uid = peer_uid(connection)
    if not is_trusted(uid):
        raise PermissionError(f"a process of another user (uid {uid}) listens there")
