"""A kazoo session for trio: its state, the number of its losses, and its responses.

kazoo runs its own threads; their events are passed to trio's. Any failure of the connection is `UncertainOutcomeError`:
requests in flight may or may not take effect, now or later, and the caller must find out by a write. A refusal of
ZooKeeper concerns a path, not the connection. Requests are not retried here.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import trio
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionDropped,
    ConnectionLoss,
    KazooException,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    UnimplementedError,
)
from kazoo.protocol.states import KazooState, KeeperState

from trimaran.node.runtime.threads import run_blocking
from trimaran.wire.transport.scheduling.events import Notifier
from trimaran.zkcompat import events
from trimaran.zkcompat.zookeeper.errors import (
    PathRefusedError,
    UncertainOutcomeError,
    ZooKeeperTooOldError,
)
from trimaran.zkcompat.zookeeper.kazoo_client import NO_SECURITY, Security, make_client
from trimaran.zkcompat.zookeeper.session_file import SavedSession

log = logging.getLogger(__name__)

# kazoo's errors after which the outcome of a request is unknown, with a text for people.
_OF_CONNECTION = {
    AuthFailedError: "the login failed",
    ConnectionClosedError: "the connection was closed",
    ConnectionDropped: "the connection broke",
    ConnectionLoss: "the connection broke",
    OperationTimeoutError: "it took too long",
    SessionExpiredError: "the session has expired",
    SessionMovedError: "the session moved to another server",
}

# Older sessions have ended at the servers, too: sessions of ten seconds begin at most once a second.
SESSIONS_KNOWN_MAX = 64


@dataclass(frozen=True, slots=True)
class KeeperConfig:
    """`connect` is Kafka's `zookeeper.connect`, chroot included; `secured` is `zookeeper.set.acl`."""

    connect: str
    session_timeout_ms: int
    secured: bool = False
    security: Security = NO_SECURITY


@dataclass(slots=True)
class ZooKeeperSession:
    """A connection to ZooKeeper with one session at a time."""

    config: KeeperConfig
    on_session: Callable[[SavedSession], None]
    _token: trio.lowlevel.TrioToken
    _client: Any = None
    _connected: bool = False
    _losses: int = 0
    # The servers refused our credentials; this client does not retry.
    is_refused: bool = False
    # The data with which another client can resume the newest session.
    saved: SavedSession | None = None
    # The newest sessions of ours, including the present one and one to resume.
    _ours: deque[int] = field(default_factory=lambda: deque(maxlen=SESSIONS_KNOWN_MAX))
    _changed: Notifier = field(default_factory=Notifier)

    @property
    def session_id(self) -> int:
        """Returns the session's id, as in the owners of ephemeral znodes; 0 while there is none."""
        client_id = self._client.client_id if self._connected else None
        return int(client_id[0]) if client_id else 0

    def was_ours(self, session_id: int) -> bool:
        """Returns True if it is or was our session: a server may keep it for a while after we have lost it."""
        return session_id in self._ours

    @property
    def is_connected(self) -> bool:
        return self._connected

    @property
    def tls_problem(self) -> str:
        """Returns the reason for which the last TLS handshake failed; empty if it did not fail."""
        return str(self._client.handler.tls_problem) if self._client is not None else ""

    @property
    def losses(self) -> int:
        """Returns the number of lost connections so far."""
        return self._losses

    @property
    def last_zxid(self) -> int:
        """Returns the newest transaction that this client has seen; servers behind it refuse the client."""
        return int(self._client.last_zxid or 0) if self._client is not None else 0

    def connect(self, resume: SavedSession | None) -> None:
        """Begins to connect, to an old session if one is given; ZooKeeper may have forgotten it."""
        client_id = (resume.session_id, resume.password) if resume else None
        if resume is not None:
            self._ours.append(resume.session_id)
        config = self.config
        client = make_client(config.connect, config.session_timeout_ms, client_id, config.security)
        client.add_listener(lambda state: self._tell(client, state))
        self._client = client
        self.is_refused = False
        client.start_async()

    async def wait_connected(self, seconds: float) -> bool:
        """Returns True as soon as the session is connected; False if `seconds` passed first."""
        with trio.move_on_after(seconds):
            while not self._connected:
                await self._changed.wait()
        await trio.lowlevel.checkpoint()
        return self._connected

    async def wait_lost(self, losses: int) -> None:
        """Returns when the connection was lost more often than `losses`, also when it is back already."""
        await trio.lowlevel.checkpoint()
        while self._losses == losses:
            await self._changed.wait()

    async def close(self) -> None:
        """Ends the session, which deletes its ephemeral znodes."""
        client, self._client = self._client, None
        if self._connected:
            self._connected = False
            self._losses += 1
            self._changed.notify_all()
        if client is not None:
            await run_blocking(_stop, client)

    async def _answer(self, result: Any, path: str = "", *meant: type[KazooException]) -> Any:
        """Returns the value of a kazoo result; kazoo's errors that are `meant` are raised unchanged.

        Raises UncertainOutcomeError, ZooKeeperTooOldError, or with a `path` PathRefusedError.
        """
        done = trio.Event()
        result.rawlink(self._call_soon(done.set))
        # The connection is closed after this time without a response.
        with trio.move_on_after(self.config.session_timeout_ms / 1000):
            await done.wait()
        if not result.ready():
            raise UncertainOutcomeError("no answer from ZooKeeper within the session timeout")
        try:
            return result.get(block=False)
        except meant:
            raise
        except UnimplementedError as error:
            raise ZooKeeperTooOldError(
                f"ZooKeeper at {self.config.connect} is older than 3.6: it lacks a request that the mirror needs"
            ) from error
        except Exception as error:  # any error of kazoo about a malformed response
            if isinstance(error, KazooException) and type(error) not in _OF_CONNECTION and path:
                raise PathRefusedError(path, reason_of(error)) from error
            words = _OF_CONNECTION.get(type(error), "the answer is none")
            raise UncertainOutcomeError(f"{words}: {error}" if str(error) else words) from error

    def _watch(self, changed: Callable[[], object]) -> Callable[[object], None]:
        """Returns a kazoo watch of this connection; kazoo also calls it when it drops watches."""
        losses = self._losses

        def tell() -> None:
            if self._losses == losses:
                changed()

        return self._call_soon(tell)

    def _call_soon(self, call: Callable[[], object]) -> Callable[[object], None]:
        """Returns a callback for kazoo's threads that makes the call in trio's thread."""

        def wake(_: object) -> None:
            try:
                self._token.run_sync_soon(self._guarded, call)
            except trio.RunFinishedError:
                return

        return wake

    def _guarded(self, call: Callable[[], object]) -> None:
        """Runs a callback of kazoo in trio's loop. There an exception would end the run as an internal error; instead
        the session closes the connection, and its users start over.
        """
        try:
            call()
        except Exception:  # noqa: BLE001 - it is logged with its traceback
            events.MIRROR_FAILED.log(log, exc_info=True)
            self._connected = False
            self._losses += 1
            self._changed.notify_all()

    def _require_connection(self) -> None:
        # kazoo queues requests while it is disconnected and sends them later; a write must never wait like that.
        if not self._connected:
            raise UncertainOutcomeError("not connected to ZooKeeper")

    def _tell(self, client: Any, state: str) -> None:
        """Runs in kazoo's thread."""
        refused = client.client_state == KeeperState.AUTH_FAILED
        try:
            self._token.run_sync_soon(
                self._guarded, partial(self._on_state, client, state, refused)
            )
        except trio.RunFinishedError:
            return

    def _on_state(self, client: Any, state: str, refused: bool = False) -> None:
        if client is not self._client:
            return
        if self._connected and state != KazooState.CONNECTED:
            self._losses += 1
        self._connected = state == KazooState.CONNECTED
        self.is_refused = self.is_refused or refused
        # Read once, since kazoo's thread clears it when the connection drops.
        client_id = client.client_id
        if self._connected and client_id is not None:
            session_id, password = client_id
            events.MIRROR_SESSION.log(log, session=session_id, connect=self.config.connect)
            self.saved = SavedSession(session_id, password)
            self._ours.append(session_id)
            self.on_session(self.saved)
        self._changed.notify_all()


def reason_of(error: Exception) -> str:
    """Returns ZooKeeper's own name of the error: NoAuth for kazoo's NoAuthError."""
    return type(error).__name__.removesuffix("Error")


def _stop(client: Any) -> None:
    client.stop()
    client.close()
