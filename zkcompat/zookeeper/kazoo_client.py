"""kazoo's client, hardened against a server that lies or is silent: bounded responses and waits, our TLS context, our
SASL. Only this folder imports kazoo.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    EXCEPTIONS,
    AuthFailedError,
    ConnectionDropped,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.connection import AUTH_XID, ConnectionHandler
from kazoo.protocol.serialization import SASL, Watch, write_string

from trimaran.zkcompat.zookeeper.digest_md5 import DigestCredentials, DigestMd5, DigestRefusedError

# One request reads a limited number of znodes, so that all of them fit even at ZooKeeper's limit of 1 MiB (`keeper`).
ANSWER_BYTES_MAX = 64 << 20
CONNECT_RETRY = {"max_tries": -1, "delay": 0.02, "backoff": 2, "max_delay": 1.0}
# The wait for each response until a connection is open. It doubles after each time-out, since an ensemble may be slow.
# kazoo would wait for a whole session timeout, but a starting ZooKeeper never responds to some clients that connect too
# early.
OPENING_SECONDS = 1.0

# The exceptions after which kazoo's thread continues. Any other would end the thread, and the session with it.
_KNOWN = (AuthFailedError, ConnectionDropped, KazooTimeoutError, SessionExpiredError)

_QUIET = logging.getLogger("trimaran.zkcompat.kazoo")
_QUIET.setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class Security:
    """The security of a connection. `auth` has pairs of a scheme of ZooKeeper and credentials."""

    tls: ssl.SSLContext | None = None
    sasl: DigestCredentials | None = field(default=None, repr=False)
    auth: Sequence[tuple[str, str]] = field(default=(), repr=False)

    @property
    def authenticates(self) -> bool:
        """True if an ACL can name the creator of a znode."""
        return bool(self.auth) or self.sasl is not None


NO_SECURITY = Security()


@dataclass(frozen=True, slots=True)
class AddWatch:
    """A persistent, recursive watch (ZooKeeper 3.6), which kazoo lacks: `type`, `serialize`, `deserialize` as its
    connection takes a request.
    """

    path: str
    type: int = 106

    def serialize(self) -> bytes:
        recursive = 1
        return bytes(write_string(self.path)) + recursive.to_bytes(4, "big")

    def deserialize(self, buffer: bytes, start: int) -> bool:
        del buffer, start
        return True


def make_client(
    connect: str,
    session_timeout_ms: int,
    client_id: tuple[int, bytes] | None,
    security: Security,
) -> Any:
    """Returns a client that is not started; `client_id` is the session to resume."""
    client = KazooClient(
        hosts=connect,
        timeout=session_timeout_ms / 1000,
        client_id=client_id,
        connection_retry=CONNECT_RETRY,
        auth_data=list(security.auth),
        handler=_Handler(security.tls),
        logger=_QUIET,
    )
    plain = client._connection  # noqa: SLF001 - kazoo has no public way to give it a connection
    client._connection = _BoundedConnection(  # noqa: SLF001
        client, plain.retry_sleeper, logger=_QUIET, sasl_options=None
    )
    client._connection.credentials = security.sasl  # noqa: SLF001
    return client


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Opens sockets with our own TLS context, which supports more than kazoo's options."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self._tls = tls
        self.tls_problem = ""  # the reason for which the last handshake failed
        self.patience_seconds = OPENING_SECONDS

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["timeout"] = min(kwargs["timeout"], self.patience_seconds)
        try:
            if self._tls is None:
                return super().create_connection(*args, **kwargs)
            return self._create_encrypted(self._tls, **kwargs)
        except TimeoutError as error:
            raise KazooTimeoutError(str(error)) from error

    def _create_encrypted(self, tls: ssl.SSLContext, **kwargs: Any) -> Any:
        plain = socket.create_connection(kwargs["address"], kwargs["timeout"])
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            encrypted = tls.wrap_socket(plain, server_hostname=kwargs.get("hostname"))
            self.tls_problem = ""
            return encrypted
        except ssl.SSLError as error:
            self.tls_problem = str(error)
            plain.close()
            raise
        except BaseException:
            plain.close()
            raise


class _BoundedConnection(ConnectionHandler):  # type: ignore[misc]
    """A bounded connection. `credentials` log in by DIGEST-MD5, for which kazoo needs a separate package.

    `watched_below` has, for each path, the callback for every changed znode at or below it (`AddWatch`); it is called
    in kazoo's thread.
    """

    credentials: DigestCredentials | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.watched_below: dict[str, Callable[[str], object]] = {}
        self._is_open = False

    def _read_watch_event(self, buffer: bytes, start: int) -> None:
        super()._read_watch_event(buffer, start)
        path = Watch.deserialize(buffer, start)[0].path
        for root, tell in list(self.watched_below.items()):
            if path == root or path.startswith(f"{root}/"):
                tell(path)

    def _read(self, length: int, timeout: float) -> bytes:
        if not 0 <= length <= ANSWER_BYTES_MAX:
            raise ConnectionDropped(f"the server announces an answer of {length} bytes")
        if not self._is_open:
            if self.client._stopped.is_set():  # noqa: SLF001
                raise ConnectionDropped("the client stops")
            timeout = min(timeout, self.handler.patience_seconds)
        found: bytes = super()._read(length, timeout)
        return found

    def stop(self, timeout: float | None = None) -> bool:
        """Ends the connection immediately if the server has not accepted the client yet."""
        opening = self._socket
        if not self._is_open and opening is not None:
            with suppress(OSError):  # closed meanwhile
                opening.shutdown(socket.SHUT_RDWR)
        return bool(super().stop(timeout))

    def _read_header(self, timeout: float) -> Any:
        found = super()._read_header(timeout)
        if self._is_open and found[0].xid == AUTH_XID:
            # kazoo would treat this as the response to the oldest request; we log in only while connecting.
            raise ConnectionDropped("the server answers a login that this client did not request")
        if found[0].err and found[0].err not in EXCEPTIONS:
            # kazoo would never complete the request.
            raise ConnectionDropped(f"the server answers with the unknown error {found[0].err}")
        return found

    def _read_socket(self, read_timeout: float) -> Any:
        with _breaking_connection():
            return super()._read_socket(read_timeout)

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        # kazoo logs in between connecting and sending its auth data only if its package for SASL is installed.
        self.sasl_options: Any = {} if self.credentials is not None else None
        self._is_open = False
        patience = self.handler.patience_seconds
        try:
            with _breaking_connection():
                waits = super()._connect(host, hostip, port)
        except KazooTimeoutError:
            self.handler.patience_seconds = min(2 * patience, self.client._session_timeout / 1000)  # noqa: SLF001
            raise
        self.handler.patience_seconds = OPENING_SECONDS
        self._is_open = True
        return waits

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        del host
        assert self.credentials is not None
        exchange = DigestMd5(self.credentials)
        token: bytes | None = b""
        xid = 0
        while token is not None:
            xid += 1
            challenge = self._exchange(token, xid, timeout)
            try:
                token = exchange.respond(challenge)
            except DigestRefusedError as error:
                raise AuthFailedError(str(error)) from error

    def _exchange(self, token: bytes, xid: int, timeout: float) -> bytes:
        self._submit(SASL(token), timeout, xid)
        try:
            header, buffer, offset = self._read_header(timeout)
        except ConnectionDropped as error:  # ZooKeeper refuses a login in this way
            raise AuthFailedError("the server closed the connection during SASL") from error
        if header.xid != xid:
            raise ConnectionDropped("the server answers another request than SASL")
        if header.err:
            raise EXCEPTIONS[header.err]()
        challenge, _ = SASL.deserialize(buffer, offset)
        return bytes(challenge or b"")


@contextmanager
def _breaking_connection() -> Iterator[None]:
    """Turns a malformed response into the end of the connection; the session continues on another one."""
    try:
        yield
    except _KNOWN:
        raise
    except Exception as error:
        raise ConnectionDropped(f"the server answers what it should not: {error!r}") from error
