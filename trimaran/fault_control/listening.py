"""The socket of the control, and the file with its token."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from trimaran.errors.user_error import Exit, UserError
from trimaran.fault_control.token import TOKEN_VARIABLE, checked_token
from trimaran.local.private_files import private_directory, write_private
from trimaran.wire.identity import Address
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import socket

    from trimaran.console import start
else:
    start = imported_later("trimaran.console.start")

LOCAL_HOST = "127.0.0.1"


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
        told = start.text_of(listener.getsockname())
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
