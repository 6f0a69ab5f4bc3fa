"""The socket of the control, its token, and the file with the token. Every request has the token, so that no other
program, and no page in a browser, breaks a cluster.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from trimaran.console.guards import is_of_this_machine
from trimaran.errors.user_error import Exit, UserError
from trimaran.local.private_files import private_directory, write_private
from trimaran.wire.identity import Address
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import socket

    from trimaran.console import start
else:
    start = imported_later("trimaran.console.start")

LOCAL_HOST = "127.0.0.1"
TOKEN_VARIABLE = "TRIMARAN_CONTROL_TOKEN"
# A random token of sixteen characters has at least 60 bits, too many to be guessed over a network.
TOKEN_CHARACTERS_MIN = 16


@dataclass(frozen=True, slots=True)
class ControlEndpoint:
    """The listening socket of the control, its address for programs, its token, and the file that has the token."""

    listener: socket.socket
    url: str
    token: str
    token_file: Path

    def ready(self, bootstrap: str) -> ReadyControl:
        return ReadyControl(bootstrap, self.url, str(self.token_file))


@dataclass(frozen=True, slots=True)
class ReadyControl:
    """A control that serves: the address of its proxy for clients, its own for programs, and the file of its token."""

    bootstrap: str
    url: str
    token_file: str

    def as_text(self) -> str:
        """Returns a line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> Self:
        return cls(**json.loads(text))


@contextmanager
def open_control(listen: str, token_file: Path | None = None) -> Iterator[ControlEndpoint]:
    """Listens at `HOST:PORT` or a port of this machine, and writes the token for this user only; the file is deleted at
    the end.

    Raises:
        UserError: the address or the token is refused. OSError: the port is taken.
    """
    address, token = checked_listening(listen)
    with start.listen_on(address) as listener:
        told = str(Address(*listener.getsockname()[:2]))
        path = token_file or private_directory() / f"control-{told.rpartition(':')[2]}.token"
        write_private(path, token)
        try:
            yield ControlEndpoint(listener, f"http://{told}", token, path)
        finally:
            path.unlink(missing_ok=True)


def checked_listening(listen: str) -> tuple[Address, str]:
    """Returns the address and the token of a control. Raises UserError: one of them is refused."""
    address = control_address(listen)
    return address, checked_token(address.host, os.environ.get(TOKEN_VARIABLE, ""))


def control_address(text: str) -> Address:
    """Returns the address of `HOST:PORT`, or of a port of this machine. Raises UserError: it is neither."""
    host, colon, port = text.rpartition(":")
    if (colon and not host) or not port.isdecimal() or int(port) >= 1 << 16:
        raise UserError(
            f"cannot listen on {text}",
            "it is not an address",
            "write HOST:PORT, as 127.0.0.1:8091, or a port",
            exit_code=Exit.USAGE,
        )
    return Address(host.strip("[]") or LOCAL_HOST, int(port))


def checked_token(host: str, given: str) -> str:
    """Returns the token: the given one, or a new one if only this machine can connect to `host`.

    Raises:
        UserError: other machines can connect and no token was given, or it is too short or not ASCII.
    """
    if not given:
        if not is_of_this_machine(host):
            raise UserError(
                f"the control would be open to all clients on {host}",
                "other machines can reach that address, and no token was given",
                f"set {TOKEN_VARIABLE} to a token that the tests know, or listen on 127.0.0.1",
                exit_code=Exit.USAGE,
            )
        return secrets.token_urlsafe(24)
    if len(given) < TOKEN_CHARACTERS_MIN or not given.isascii() or not given.isprintable():
        raise UserError(
            f"the token in {TOKEN_VARIABLE} is unusable",
            f"it has {len(given)} characters; {TOKEN_CHARACTERS_MIN} or more of ASCII are needed",
            "use for example the output of: openssl rand -hex 16",
            exit_code=Exit.USAGE,
        )
    return given
