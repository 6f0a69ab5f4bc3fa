"""A ZooKeeper session for trio.

kazoo runs its own threads; here its `*_async` calls are made and their results awaited. Any failure of the connection
is `UncertainOutcomeError`: what was in flight may or may not have happened, now or later, and the caller must find out
by writing. What ZooKeeper refuses is refused for a path, and says nothing of the connection. Nothing is retried here.
Left out: recipes, read-only servers; ZooKeeper before 3.6.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import trio
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionDropped,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.protocol.serialization import CheckVersion, Create, Delete, SetData
from kazoo.protocol.states import KazooState, KeeperState

from node.runtime.threads import run_blocking
from wire.transport.events import Notifier
from zkcompat.claim import Step
from zkcompat.tree import FoundZnode
from zkcompat.zookeeper.kazoo_client import NO_SECURITY, AddWatch, Security, make_client
from zkcompat.zookeeper.multi_read import GET_CHILDREN, GET_DATA, MultiRead, Refused
from zkcompat.zookeeper.session_file import SavedSession, load_session, save_session
from zkcompat.zookeeper.znode_acls import acl_of

log = logging.getLogger(__name__)

# Enough to make the cost of a request small; that many znodes of 1 MiB fit into the largest answer.
READS_IN_REQUEST = 60
REQUESTS_IN_FLIGHT = 4  # enough to hide the round trip, too few to hold up a writer's packets
FLAG_EPHEMERAL = 1
FLAG_SEQUENTIAL = 2
# Of kazoo's errors: those that leave open what became of a request.
_OF_CONNECTION = (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionDropped,
    ConnectionLoss,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
)


class UncertainOutcomeError(Exception):
    """The connection failed or an answer did not come: whatever was in flight is unknown."""


class PathRefusedError(Exception):
    """ZooKeeper refused to do something with one znode; `reason` is its error, as in NoAuth."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class TransactionRefusedError(Exception):
    """ZooKeeper refused a transaction as a whole; `index` is the step at fault."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"step {index}: {reason}")
        self.index = index
        self.reason = reason


@dataclass(frozen=True, slots=True)
class KeeperConfig:
    """`connect` is Kafka's `zookeeper.connect`, chroot included; `secured` is `zookeeper.set.acl`."""

    connect: str
    session_timeout_ms: int
    secured: bool = False
    security: Security = NO_SECURITY


@dataclass(slots=True)
class Keeper:
    """One session at a time. Made by `open_keeper`."""

    config: KeeperConfig
    on_session: Callable[[SavedSession], None]
    _token: trio.lowlevel.TrioToken
    _client: Any = None
    _connected: bool = False
    _losses: int = 0
    # The servers do not take our credentials; this client tries no more.
    is_refused: bool = False
    _changed: Notifier = field(default_factory=Notifier)

    @property
    def session_id(self) -> int:
        """The session's id as ephemeral owners show it; 0 while there is none."""
        client_id = self._client.client_id if self._connected else None
        return int(client_id[0]) if client_id else 0

    @property
    def is_connected(self) -> bool:
        return self._connected

    @property
    def losses(self) -> int:
        """How often the connection was lost so far."""
        return self._losses

    @property
    def last_zxid(self) -> int:
        """The newest transaction that this client has seen; servers behind it turn the client away."""
        return int(self._client.last_zxid or 0) if self._client is not None else 0

    @property
    def saved_session(self) -> SavedSession | None:
        """What another client needs to take the session up."""
        client_id = self._client.client_id if self._client is not None else None
        return SavedSession(*client_id) if client_id and client_id[0] else None

    def connect(self, resume: SavedSession | None) -> None:
        """Begins to connect, to an old session if one is given; ZooKeeper may have forgotten it."""
        client_id = (resume.session_id, resume.password) if resume else None
        config = self.config
        client = make_client(config.connect, config.session_timeout_ms, client_id, config.security)
        client.add_listener(lambda state: self._tell(client, state))
        self._client = client
        self.is_refused = False
        client.start_async()

    async def wait_connected(self, seconds: float) -> bool:
        """True as soon as the session stands; False when `seconds` passed first."""
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
        """Ends the session; its ephemeral znodes go."""
        client, self._client = self._client, None
        if self._connected:
            self._connected = False
            self._losses += 1
            self._changed.notify_all()
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
                raise TransactionRefusedError(index, _reason(answer))

    async def ensure(self, path: str, data: bytes | None) -> None:
        """Creates a znode outside the guard, unless it is there. For what must stand before a claim."""
        self._require_connection()
        if path == "/":
            await self._ensure_chroot()
            return
        try:
            await self._answer(self._client.create_async(path, data, acl=self._acl(path)), path)
        except NodeExistsError:
            return
        except NoNodeError as error:
            raise UncertainOutcomeError(f"the parent of {path} was deleted") from error

    async def _ensure_chroot(self) -> None:
        """Creates the chroot level by level, which kazoo does for one level only."""
        if await self.read("/") is not None:
            return
        client = self._client
        level = ""
        for name in client.chroot.strip("/").split("/"):
            level = f"{level}/{name}"
            result = client.handler.async_result()
            client._call(Create(level, b"", self._acl("/"), 0), result)  # noqa: SLF001 - outside the chroot
            with suppress(NodeExistsError):
                await self._answer(result, level)

    async def put_own(self, path: str, data: bytes) -> None:
        """Creates or writes an ephemeral znode outside the guard, for what is nobody else's."""
        self._require_connection()
        try:
            await self._answer(self._client.set_async(path, data), path)
        except NoNodeError:
            create = self._client.create_async(path, data, acl=self._acl(path), ephemeral=True)
            try:
                await self._answer(create, path)
            except (NoNodeError, NodeExistsError) as error:
                raise UncertainOutcomeError(f"{path} was changed meanwhile") from error

    async def hide(self, path: str) -> None:
        """Leaves a znode to its creator's eyes only; one that is gone needs no hiding."""
        self._require_connection()
        acl = acl_of(path, secured=True, secret=True)
        try:
            await self._answer(self._client.set_acls_async(path, acl), path)
        except NoNodeError:
            return

    async def acls(self, paths: Sequence[str]) -> list[list[Any] | None]:
        """The ACLs of many znodes, None for those that are gone or do not show it."""
        found: list[list[Any] | None] = []
        for start in range(0, len(paths), READS_IN_REQUEST):
            self._require_connection()
            part = paths[start : start + READS_IN_REQUEST]
            results = [(self._client.get_acls_async(path), path) for path in part]
            for result, path in results:
                try:
                    found.append((await self._answer(result, path))[0])
                except (NoNodeError, PathRefusedError):
                    found.append(None)
        return found

    async def read(
        self, path: str, changed: Callable[[], object] | None = None
    ) -> FoundZnode | None:
        """A znode, None if it is not there. `changed` is called once, when it is made, written or deleted, unless the
        connection is lost before that.
        """
        self._require_connection()
        watch = None if changed is None else self._watch(changed)
        try:
            data, stat = await self._answer(self._client.get_async(path, watch=watch), path)
        except NoNodeError:
            if watch is None:
                return None
            if await self._answer(self._client.exists_async(path, watch=watch), path) is None:
                return None
            return await self.read(path, changed)
        return FoundZnode(
            data, stat.ephemeralOwner, stat.version, stat.ctime, stat.czxid, stat.mzxid
        )

    async def children(self, path: str, changed: Callable[[], object] | None = None) -> list[str]:
        """The names of a znode's children, sorted. `changed` is called once, when one comes or goes or the znode
        itself goes, unless the connection is lost before that; a znode that is not there is not watched.
        """
        self._require_connection()
        watch = None if changed is None else self._watch(changed)
        try:
            answer = self._answer(self._client.get_children_async(path, watch=watch), path)
            return sorted(await answer)
        except NoNodeError:
            return []

    async def read_many(self, paths: Sequence[str]) -> dict[str, FoundZnode]:
        """The znodes of these paths that are there."""
        found: dict[str, FoundZnode] = {}
        await self._read_level(list(paths), found)
        return found

    async def read_tree(
        self, roots: Iterable[str], singles: Iterable[str]
    ) -> dict[str, FoundZnode]:
        """The znodes `singles`, and `roots` with everything below; what vanishes meanwhile is left out. Below what must
        not be read nothing is found.
        """
        found: dict[str, FoundZnode] = {}
        inside = set(roots)
        bare = set(singles) - inside
        level = list(dict.fromkeys([*bare, *inside]))
        while level:
            parents = await self._read_level(level, found)
            inner = [path for path in parents if path not in bare]
            level = [path for path in await self._children_of(inner) if path not in found]
        return found

    async def watch_below(
        self, root: str, wanted: Callable[[str], bool], changed: Callable[[str], object]
    ) -> None:
        """Calls `changed` with each path at or below `root` that is made, written or deleted and `wanted`, until the
        connection is lost. `wanted` is called in a thread of kazoo's.
        """
        self._require_connection()
        client = self._client
        losses = self._losses

        def tell(path: str) -> None:
            if self._losses == losses:
                changed(path)

        def heard(full: str) -> None:
            path = client.unchroot(full)
            if wanted(path):
                _wake(self._token, lambda: tell(path))(None)

        full = f"{client.chroot}{root}"
        client._connection.watched_below[full] = heard  # noqa: SLF001
        result = client.handler.async_result()
        client._call(AddWatch(full), result)  # noqa: SLF001
        await self._answer(result, root)

    async def wait_deleted(self, path: str, seconds: float) -> bool:
        """True when `path` does not exist; waits for its deletion up to `seconds`, since a watch may get lost."""
        gone = trio.Event()
        if await self.read(path, gone.set) is None:
            return True
        with trio.move_on_after(seconds):
            await gone.wait()
        return await self.read(path) is None

    async def _read_level(self, level: list[str], found: dict[str, FoundZnode]) -> list[str]:
        """Reads the paths of one depth; returns those that have children."""
        parents: list[str] = []
        for path, read in await self._read_many(GET_DATA, level):
            if isinstance(read, Refused):
                found[path] = FoundZnode(None, refusal=read.reason)
                continue
            found[path] = FoundZnode(
                read.data,
                read.owner,
                read.version,
                read.created_ms,
                read.created_zxid,
                read.modified_zxid,
            )
            if read.children:
                parents.append(path)
        return parents

    async def _children_of(self, parents: list[str]) -> list[str]:
        paths: list[str] = []
        for parent, names in await self._read_many(GET_CHILDREN, parents):
            if isinstance(names, Refused):
                continue
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

    async def _answer(self, result: Any, path: str = "") -> Any:
        """The value of a kazoo result. NoNodeError and NodeExistsError come out as kazoo's."""
        done = trio.Event()
        result.rawlink(_wake(self._token, done.set))
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
            if isinstance(error, KazooException) and not isinstance(error, _OF_CONNECTION) and path:
                raise PathRefusedError(path, _reason(error)) from error
            raise UncertainOutcomeError(f"{_reason(error)} {error}".rstrip()) from error

    def _watch(self, changed: Callable[[], object]) -> Callable[[object], None]:
        """A kazoo watch of this connection; kazoo calls it as well when it gives watches up."""
        losses = self._losses

        def tell() -> None:
            if self._losses == losses:
                changed()

        return _wake(self._token, tell)

    def _require_connection(self) -> None:
        # kazoo queues requests while it is disconnected and sends them later; a write must never wait like that.
        if not self._connected:
            raise UncertainOutcomeError("not connected to ZooKeeper")

    def _request(self, step: Step) -> Any:
        # kazoo's own transaction builder has no znode without data, so the requests are built here.
        path = f"{self._client.chroot}{step.path}"
        if step.kind == "create":
            flags = FLAG_EPHEMERAL * step.ephemeral | FLAG_SEQUENTIAL * step.sequential
            return Create(path, step.data, self._acl(step.path, step.secret), flags)
        if step.kind == "set":
            return SetData(path, step.data, step.version)
        if step.kind == "delete":
            return Delete(path, step.version)
        return CheckVersion(path, step.version)

    def _acl(self, path: str, secret: bool = False) -> list[Any]:
        return acl_of(path, secured=self.config.secured, secret=secret)

    def _tell(self, client: Any, state: str) -> None:
        """Runs in kazoo's thread."""
        refused = client.client_state == KeeperState.AUTH_FAILED
        try:
            self._token.run_sync_soon(self._on_state, client, state, refused)
        except trio.RunFinishedError:
            return

    def _on_state(self, client: Any, state: str, refused: bool = False) -> None:
        if client is not self._client:
            return
        if self._connected and state != KazooState.CONNECTED:
            self._losses += 1
        self._connected = state == KazooState.CONNECTED
        self.is_refused = self.is_refused or refused
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


def _reason(error: Exception) -> str:
    """ZooKeeper's own word: NoAuth of kazoo's NoAuthError."""
    return type(error).__name__.removesuffix("Error")


def _wake(token: trio.lowlevel.TrioToken, call: Callable[[], object]) -> Callable[[object], None]:
    """A callback for kazoo's threads that makes a call in trio's."""

    def wake(_: object) -> None:
        try:
            token.run_sync_soon(call)
        except trio.RunFinishedError:
            return

    return wake


def _stop(client: Any) -> None:
    client.stop()
    client.close()
