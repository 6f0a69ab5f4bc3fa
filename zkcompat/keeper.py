"""A ZooKeeper session for trio: with `multi_read.py` the only module that imports kazoo.

kazoo runs its own threads; here its `*_async` calls are made and their results awaited. Any failure of the connection
is `UncertainOutcomeError`: what was in flight may or may not have happened, now or later, and the caller must find out
by writing. Nothing is retried here. Left out: recipes, read-only servers, SASL and TLS; ZooKeeper before 3.6.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import trio
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    KazooException,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.serialization import CheckVersion, Create, Delete, SetData
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from node.runtime.threads import run_blocking
from wire.transport.events import Notifier
from zkcompat.claim import Step
from zkcompat.multi_read import GET_CHILDREN, GET_DATA, MultiRead
from zkcompat.session_file import SavedSession, load_session, save_session
from zkcompat.tree import FoundZnode

log = logging.getLogger(__name__)

# Enough to make the cost of a request small; an answer of large topics stays a few MiB.
READS_IN_REQUEST = 200
REQUESTS_IN_FLIGHT = 4  # enough to hide the round trip, too few to hold up a watcher's packets
CONNECT_RETRY = {"max_tries": -1, "delay": 0.02, "backoff": 2, "max_delay": 1.0}
FLAG_EPHEMERAL = 1
FLAG_SEQUENTIAL = 2


class UncertainOutcomeError(Exception):
    """The connection failed or an answer did not come: whatever was in flight is unknown."""


class TransactionRefusedError(Exception):
    """ZooKeeper refused a transaction as a whole; `index` is the step at fault."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"step {index}: {reason}")
        self.index = index
        self.reason = reason


@dataclass(frozen=True, slots=True)
class KeeperConfig:
    """`connect` is Kafka's `zookeeper.connect`, chroot included.

    Every create carries its ACL: all rights for everybody, or for the user of `auth` alone if `creator_only`.
    `auth` has pairs of scheme and credentials.
    """

    connect: str
    session_timeout_ms: int
    creator_only: bool = False
    auth: Sequence[tuple[str, str]] = ()


@dataclass(slots=True)
class Keeper:
    """One session at a time. Made by `open_keeper`."""

    config: KeeperConfig
    on_session: Callable[[SavedSession], None]
    _token: trio.lowlevel.TrioToken
    _client: Any = None
    _connected: bool = False
    _changed: Notifier = field(default_factory=Notifier)

    @property
    def session_id(self) -> int:
        """The session's id as ephemeral owners show it; 0 while there is none."""
        client_id = self._client.client_id if self._connected else None
        return int(client_id[0]) if client_id else 0

    @property
    def is_connected(self) -> bool:
        return self._connected

    def connect(self, resume: SavedSession | None) -> None:
        """Begins to connect, to an old session if one is given; ZooKeeper may have forgotten it."""
        client = KazooClient(
            hosts=self.config.connect,
            timeout=self.config.session_timeout_ms / 1000,
            client_id=(resume.session_id, resume.password) if resume else None,
            connection_retry=CONNECT_RETRY,
            auth_data=list(self.config.auth),
            logger=_QUIET,
        )
        client.add_listener(lambda state: self._tell(client, state))
        self._client = client
        client.start_async()

    async def wait_connected(self, seconds: float) -> bool:
        """True as soon as the session stands; False when `seconds` passed first."""
        with trio.move_on_after(seconds):
            while not self._connected:
                await self._changed.wait()
        await trio.lowlevel.checkpoint()
        return self._connected

    async def wait_disconnected(self) -> None:
        while self._connected:
            await self._changed.wait()

    async def close(self) -> None:
        """Ends the session; its ephemeral znodes go."""
        client, self._client, self._connected = self._client, None, False
        if client is not None:
            await run_blocking(_stop, client)

    async def transact(self, steps: Sequence[Step]) -> None:
        """Runs the steps as one transaction. Raises TransactionRefusedError (nothing happened) or UncertainOutcomeError
        (unknown).
        """
        self._require_connection()
        transaction = self._client.transaction()
        transaction.operations.extend(self._request(step) for step in steps)
        for index, answer in enumerate(await self._answer(transaction.commit_async())):
            if isinstance(answer, Exception) and not isinstance(
                answer, RolledBackError | RuntimeInconsistency
            ):
                raise TransactionRefusedError(index, type(answer).__name__)

    async def ensure(self, path: str, data: bytes | None) -> None:
        """Creates a znode outside the guard, unless it is there. For what must stand before a claim."""
        self._require_connection()
        if path == "/":
            await self._answer(self._client.ensure_path_async("/", acl=self._acl()))
            return
        try:
            await self._answer(self._client.create_async(path, data, acl=self._acl()))
        except NodeExistsError:
            return
        except NoNodeError as error:
            raise UncertainOutcomeError(f"the parent of {path} was deleted") from error

    async def read(self, path: str) -> FoundZnode | None:
        self._require_connection()
        try:
            data, stat = await self._answer(self._client.get_async(path))
        except NoNodeError:
            return None
        return FoundZnode(data, stat.ephemeralOwner, stat.version)

    async def created_ms(self, path: str) -> int | None:
        """When a znode was created, by ZooKeeper's clock."""
        self._require_connection()
        stat = await self._answer(self._client.exists_async(path))
        return None if stat is None else int(stat.ctime)

    async def children(self, path: str) -> list[str]:
        self._require_connection()
        try:
            return sorted(await self._answer(self._client.get_children_async(path)))
        except NoNodeError:
            return []

    async def read_tree(
        self, roots: Iterable[str], singles: Iterable[str]
    ) -> dict[str, FoundZnode]:
        """The znodes `singles`, and `roots` with everything below; what vanishes meanwhile is left out."""
        found: dict[str, FoundZnode] = {}
        level = list(dict.fromkeys([*singles, *roots]))
        inside = tuple(roots)
        below = tuple(f"{root.rstrip('/')}/" for root in inside)
        while level:
            parents = await self._read_level(level, found)
            parents = [path for path in parents if path in inside or path.startswith(below)]
            level = [path for path in await self._children_of(parents) if path not in found]
        return found

    async def wait_deleted(self, path: str, seconds: float) -> bool:
        """True when `path` does not exist; waits for its deletion up to `seconds`, since a watch may get lost."""
        gone = trio.Event()
        self._require_connection()
        watch = _wake(self._token, gone)
        if await self._answer(self._client.exists_async(path, watch=watch)) is None:
            return True
        with trio.move_on_after(seconds):
            await gone.wait()
        return await self.read(path) is None

    async def _read_level(self, level: list[str], found: dict[str, FoundZnode]) -> list[str]:
        """Reads the paths of one depth; returns those that have children."""
        parents: list[str] = []
        for path, read in await self._read_many(GET_DATA, level):
            found[path] = FoundZnode(read.data, read.owner, read.version)
            if read.children:
                parents.append(path)
        return parents

    async def _children_of(self, parents: list[str]) -> list[str]:
        paths: list[str] = []
        for parent, names in await self._read_many(GET_CHILDREN, parents):
            paths += [f"{parent.rstrip('/')}/{name}" for name in sorted(names)]
        return paths

    async def _read_many(self, kind: int, paths: list[str]) -> list[tuple[str, Any]]:
        """(path, answer) for the paths that exist, a few requests on the way at a time."""
        found: list[tuple[str, Any]] = []
        span = READS_IN_REQUEST * REQUESTS_IN_FLIGHT
        for start in range(0, len(paths), span):
            self._require_connection()
            chunks = [
                paths[at : at + READS_IN_REQUEST]
                for at in range(start, min(start + span, len(paths)), READS_IN_REQUEST)
            ]
            results = [self._submit_reads(kind, chunk) for chunk in chunks]
            for chunk, result in zip(chunks, results, strict=True):
                answers = await self._answer(result)
                found += [(p, a) for p, a in zip(chunk, answers, strict=True) if a is not None]
        return found

    def _submit_reads(self, kind: int, paths: list[str]) -> Any:
        client = self._client
        full = [f"{client.chroot}{path}" if path != "/" else client.chroot or "/" for path in paths]
        result = client.handler.async_result()
        client._call(MultiRead(kind, full), result)  # noqa: SLF001 - kazoo has no public way to send a request of one's own
        return result

    async def _answer(self, result: Any) -> Any:
        """The value of a kazoo result. ZooKeeper's refusals come out as kazoo's exceptions of the refused request."""
        done = trio.Event()
        result.rawlink(_wake(self._token, done))
        # Longer than a session cannot last without its connection being given up.
        with trio.move_on_after(self.config.session_timeout_ms / 1000):
            await done.wait()
        if not result.ready():
            raise UncertainOutcomeError("no answer from ZooKeeper within the session timeout")
        try:
            return result.get(block=False)
        except (NoNodeError, NodeExistsError):
            raise
        except (KazooException, struct.error, UnicodeDecodeError, RuntimeError) as error:
            raise UncertainOutcomeError(
                f"ZooKeeper: {type(error).__name__} {error}".rstrip()
            ) from error

    def _require_connection(self) -> None:
        # kazoo queues requests while it is disconnected and sends them later; a write must never wait like that.
        if not self._connected:
            raise UncertainOutcomeError("not connected to ZooKeeper")

    def _request(self, step: Step) -> Any:
        # kazoo's own transaction builder has no znode without data, so the requests are built here.
        path = f"{self._client.chroot}{step.path}"
        if step.kind == "create":
            flags = FLAG_EPHEMERAL * step.ephemeral | FLAG_SEQUENTIAL * step.sequential
            return Create(path, step.data, self._acl(), flags)
        if step.kind == "set":
            return SetData(path, step.data, step.version)
        if step.kind == "delete":
            return Delete(path, step.version)
        return CheckVersion(path, step.version)

    def _acl(self) -> Sequence[ACL]:
        return list(CREATOR_ALL_ACL if self.config.creator_only else OPEN_ACL_UNSAFE)

    def _tell(self, client: Any, state: str) -> None:
        """Runs in kazoo's thread."""
        try:
            self._token.run_sync_soon(self._on_state, client, state)
        except trio.RunFinishedError:
            return

    def _on_state(self, client: Any, state: str) -> None:
        if client is not self._client:
            return
        self._connected = state == KazooState.CONNECTED
        if self._connected and client.client_id is not None:
            session_id, password = client.client_id
            log.info("ZooKeeper session %#x at %s", session_id, self.config.connect)
            self.on_session(SavedSession(session_id, password))
        self._changed.notify_all()


@asynccontextmanager
async def open_keeper(
    config: KeeperConfig, session_file: trio.Path | None = None, *, keep_session: bool = False
) -> AsyncIterator[Keeper]:
    """A keeper that is connecting. With `session_file` an earlier process's session is taken up again.

    `keep_session`: leave the session to its time-out on exit, for a process that is about to end and may come back;
    its connection dies with the process.
    """
    path = session_file and session_file.__fspath__()
    resume = load_session(path, config.connect) if path else None

    def remember(session: SavedSession) -> None:
        if path:
            try:
                save_session(path, config.connect, session)
            except OSError as error:  # the next process begins another session: brokers flicker
                log.warning("The ZooKeeper session cannot be kept in %s: %s", path, error)

    keeper = Keeper(config, remember, trio.lowlevel.current_trio_token())
    keeper.connect(resume)
    try:
        yield keeper
    finally:
        if not keep_session:
            with trio.CancelScope(shield=True):
                await keeper.close()


def _wake(token: trio.lowlevel.TrioToken, event: trio.Event) -> Callable[[object], None]:
    """A callback for kazoo's threads that sets a trio event."""

    def wake(_: object) -> None:
        try:
            token.run_sync_soon(event.set)
        except trio.RunFinishedError:
            return

    return wake


def _stop(client: Any) -> None:
    client.stop()
    client.close()


_QUIET = logging.getLogger("zkcompat.kazoo")
_QUIET.setLevel(logging.CRITICAL)
