"""Requests to ZooKeeper in a session: single znodes, whole trees, transactions, watches.

Not supported: kazoo's recipes; reading from servers without a majority, which refuse our requests; ZooKeeper before 3.6
(`require_modern_server`).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import islice
from typing import Any

import trio
from kazoo.exceptions import (
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.serialization import CheckVersion, Create, Delete, SetData

from trimaran.zkcompat import events
from trimaran.zkcompat.tree.claim import TransactionStep
from trimaran.zkcompat.tree.operations import FoundZnode
from trimaran.zkcompat.zookeeper.errors import (
    PathRefusedError,
    TransactionRefusedError,
    UncertainOutcomeError,
)
from trimaran.zkcompat.zookeeper.kazoo_client import AddWatch
from trimaran.zkcompat.zookeeper.multi_read import GET_CHILDREN, GET_DATA, MultiRead
from trimaran.zkcompat.zookeeper.session import KeeperConfig, ZooKeeperSession, reason_of
from trimaran.zkcompat.zookeeper.session_file import SavedSession, load_session, save_session
from trimaran.zkcompat.zookeeper.znode_acls import acl_of

log = logging.getLogger(__name__)

# Enough to make the cost of a request small; this many znodes of 1 MiB fit into the largest response.
READS_IN_REQUEST = 60
# A server that receives a packet of a MiB closes the connection, and other clients may choose names of that length.
PATH_BYTES_IN_REQUEST = 500_000
REQUESTS_IN_FLIGHT = 4  # enough to hide the round trip, too few to hold up a writer's packets
FLAG_EPHEMERAL = 1
FLAG_SEQUENTIAL = 2


class Keeper(ZooKeeperSession):
    """A session with its requests. Created by `open_keeper`."""

    __slots__ = ()

    async def transact(
        self, steps: Sequence[TransactionStep], meanwhile: Callable[[], object] | None = None
    ) -> None:
        """Runs the steps as one transaction. `meanwhile` is called while the answer is awaited.

        Raises TransactionRefusedError (nothing happened) or UncertainOutcomeError (unknown).
        """
        self._require_connection()
        transaction = self._client.transaction()
        transaction.operations.extend(self._request(step) for step in steps)
        result = transaction.commit_async()
        if meanwhile is not None:
            # Meanwhile kazoo's thread runs, and sends the request.
            await trio.lowlevel.checkpoint()
            meanwhile()
        answers = await self._answer(result)
        for index, answer in enumerate(answers):
            if isinstance(answer, Exception) and not isinstance(
                answer, RolledBackError | RuntimeInconsistency
            ):
                if index >= len(steps):
                    break
                raise TransactionRefusedError(index, reason_of(answer))
        if len(answers) != len(steps):
            raise UncertainOutcomeError(f"{len(answers)} answers to {len(steps)} steps")

    async def ensure(self, path: str, data: bytes | None) -> None:
        """Creates a znode outside the guard, unless it exists: a claim requires some existing znodes."""
        self._require_connection()
        if path == "/":
            await self._ensure_chroot()
            return
        try:
            create = self._client.create_async(path, data, acl=self._acl(path))
            await self._answer(create, path, NodeExistsError, NoNodeError)
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
                await self._answer(result, level, NodeExistsError)

    async def put_own(self, path: str, data: bytes) -> None:
        """Creates or writes, outside the guard, an ephemeral znode that no other client writes."""
        self._require_connection()
        try:
            await self._answer(self._client.set_async(path, data), path, NoNodeError)
        except NoNodeError:
            self._require_connection()
            create = self._client.create_async(path, data, acl=self._acl(path), ephemeral=True)
            try:
                await self._answer(create, path, NoNodeError, NodeExistsError)
            except (NoNodeError, NodeExistsError) as error:
                raise UncertainOutcomeError(f"{path} was changed meanwhile") from error

    async def hide(self, path: str) -> None:
        """Hides a znode from all but its creator; a missing znode is not an error."""
        self._require_connection()
        acl = acl_of(path, secured=True, secret=True)
        try:
            await self._answer(self._client.set_acls_async(path, acl), path, NoNodeError)
        except NoNodeError:
            return

    async def acls(self, paths: Sequence[str]) -> list[list[Any] | None]:
        """Returns the ACLs of many znodes, None for each that is gone or may not be read."""
        found: list[list[Any] | None] = []
        for start in range(0, len(paths), READS_IN_REQUEST):
            self._require_connection()
            part = paths[start : start + READS_IN_REQUEST]
            results = [(self._client.get_acls_async(path), path) for path in part]
            for result, path in results:
                try:
                    found.append((await self._answer(result, path, NoNodeError))[0])
                except (NoNodeError, PathRefusedError):
                    found.append(None)
        return found

    async def read(
        self, path: str, changed: Callable[[], object] | None = None
    ) -> FoundZnode | None:
        """Returns a znode, None if it does not exist. `changed` is called once, when it is created, written or deleted,
        unless the connection is lost first.
        """
        self._require_connection()
        watch = None if changed is None else self._watch(changed)
        try:
            asked = self._client.get_async(path, watch=watch)
            data, stat = await self._answer(asked, path, NoNodeError)
        except NoNodeError:
            if watch is None:
                return None
            self._require_connection()
            if await self._answer(self._client.exists_async(path, watch=watch), path) is None:
                return None
            return await self.read(path, changed)
        return FoundZnode(
            *(data, stat.ephemeralOwner, stat.version, stat.ctime, stat.czxid, stat.mzxid),
            modified_ms=stat.mtime,
            children_zxid=stat.pzxid,
        )

    async def children(self, path: str, changed: Callable[[], object] | None = None) -> list[str]:
        """Returns the names of a znode's children, sorted. `changed` is called once, when a child is created or deleted
        or the znode is deleted, unless the connection is lost first; a znode that does not exist is not watched.
        """
        self._require_connection()
        watch = None if changed is None else self._watch(changed)
        try:
            asked = self._client.get_children_async(path, watch=watch)
            return sorted(await self._answer(asked, path, NoNodeError))
        except NoNodeError:
            return []

    async def require_modern_server(self) -> None:
        """Raises ZooKeeperTooOldError before anything is written to a server that lacks multi-reads or recursive
        watches: both came with 3.6, and an older server ends the session at the first one.
        """
        self._require_connection()
        await self._answer(self._submit_reads(GET_DATA, ["/"]))

    async def read_many(self, paths: Sequence[str]) -> dict[str, FoundZnode]:
        """Returns those of the znodes that exist."""
        found: dict[str, FoundZnode] = {}
        await self._read_level(list(paths), found)
        return found

    async def read_tree(
        self,
        roots: Iterable[str],
        singles: Iterable[str],
        *,
        znodes_max: int | None = None,
        levels_max: int | None = None,
    ) -> dict[str, FoundZnode]:
        """Returns the znodes `singles`, and `roots` with everything below; znodes that vanish meanwhile are omitted.
        Nothing is found below a znode that may not be read. Returns at most `znodes_max`, and at most `levels_max`
        levels, shallowest first.
        """
        found: dict[str, FoundZnode] = {}
        inside = set(roots)
        bare = set(singles) - inside
        level = list(dict.fromkeys([*bare, *inside]))
        levels = 0
        while level:
            parents = await self._read_level(level, found)
            inner = [path for path in parents if path not in bare]
            levels += 1
            if levels == levels_max:
                break
            level = [path for path in await self._children_of(inner) if path not in found]
            if znodes_max is not None:
                level = level[: znodes_max - len(found)]
        return found

    async def watch_below(
        self, root: str, wanted: Callable[[str], bool], changed: Callable[[str], object]
    ) -> None:
        """Calls `changed` with each path at or below `root` that is created, written or deleted and for which `wanted`
        is true, until the connection is lost. `wanted` is called in a thread of kazoo's.
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
                self._call_soon(lambda: tell(path))(None)

        full = f"{client.chroot}{root}"
        client._connection.watched_below[full] = heard  # noqa: SLF001
        result = client.handler.async_result()
        client._call(AddWatch(full), result)  # noqa: SLF001
        await self._answer(result, root)

    async def wait_deleted(self, path: str, seconds: float) -> bool:
        """Returns True when `path` does not exist; waits for its deletion up to `seconds`, since a watch may get
        lost.
        """
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
            found[path] = read
            if read.children:
                parents.append(path)
        return parents

    async def _children_of(self, parents: list[str]) -> list[str]:
        paths: list[str] = []
        for parent, names in await self._read_many(GET_CHILDREN, parents):
            above = parent.rstrip("/")
            paths += [f"{above}/{name}" for name in sorted(names)]
        return paths

    async def _read_many(self, kind: int, paths: list[str]) -> list[tuple[str, Any]]:
        """Returns (path, response) for the paths that exist, with a few requests in flight at a time."""
        found: list[tuple[str, Any]] = []
        requests = _requests(paths)
        while chunks := list(islice(requests, REQUESTS_IN_FLIGHT)):
            self._require_connection()
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

    def _request(self, step: TransactionStep) -> Any:
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


def _requests(paths: Sequence[str]) -> Iterator[list[str]]:
    """Yields the paths in runs that fit into a request."""
    chunk: list[str] = []
    size = 0
    for path in paths:
        more = len(path.encode())
        if chunk and (len(chunk) == READS_IN_REQUEST or size + more > PATH_BYTES_IN_REQUEST):
            yield chunk
            chunk, size = [], 0
        chunk.append(path)
        size += more
    if chunk:
        yield chunk


@asynccontextmanager
async def open_keeper(
    config: KeeperConfig, session_file: trio.Path | None = None, *, keep_session: bool = False
) -> AsyncIterator[Keeper]:
    """Yields a keeper that is connecting. With `session_file` it resumes an earlier process's session.

    With `keep_session` the session is left to its time-out on exit, for a process that ends and may be restarted; its
    connection ends with the process.
    """
    path = session_file and session_file.__fspath__()
    resume = load_session(path, config.connect) if path else None

    def remember(session: SavedSession) -> None:
        if path:
            try:
                save_session(path, config.connect, session)
            except OSError as error:  # the next process needs a new session
                events.MIRROR_SESSION_NOT_KEPT.log(log, path=path, error=error)

    keeper = Keeper(config, remember, trio.lowlevel.current_trio_token())
    keeper.connect(resume)
    try:
        yield keeper
    finally:
        if not keep_session:
            with trio.CancelScope(shield=True):
                await keeper.close()
