"""A ZooKeeper in this process, behind kazoo's interface: for tests of the mirror step by step, on a clock that they
advance. `test_in_memory.py` compares it with a real one.

It has znodes with their stat, sessions with ephemerals, ACLs, transactions, watches and multi-reads, and loses
connections when the test does so. It has no delay, no quotas and no containers.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kazoo import exceptions
from kazoo.exceptions import (
    BadVersionError,
    InvalidACLError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.protocol.serialization import CheckVersion, Create, Delete, SetData
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.security import ACL, Id, make_digest_acl_credential

from trimaran.zkcompat.tree.operations import FoundZnode
from trimaran.zkcompat.zookeeper.kazoo_client import AddWatch, Security
from trimaran.zkcompat.zookeeper.multi_read import GET_DATA, MultiRead

READ, WRITE, CREATE, DELETE, ADMIN = 1, 2, 4, 8, 16
OPEN = (ACL(31, Id("world", "anyone")),)
EPHEMERAL, SEQUENTIAL = 1, 2


class Stat(NamedTuple):
    """The same fields as kazoo's."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeralOwner: int  # noqa: N815 - kazoo's word
    dataLength: int  # noqa: N815
    numChildren: int  # noqa: N815
    pzxid: int


@dataclass(frozen=True)
class Znode:
    data: bytes | None
    acl: tuple[ACL, ...]
    owner: int
    created: tuple[int, int]  # zxid, milliseconds
    modified: tuple[int, int]
    children_zxid: int
    version: int = 0
    # The number of children ever created, which becomes the number of the next sequential child.
    made_below: int = 0
    children: frozenset[str] = frozenset()

    def stat(self) -> Stat:
        return Stat(
            self.created[0],
            self.modified[0],
            self.created[1],
            self.modified[1],
            self.version,
            self.made_below,
            0,
            self.owner,
            len(self.data or b""),
            len(self.children),
            self.children_zxid,
        )


Tree = dict[str, Znode]


@dataclass
class Ensemble:
    """`now_ms` is its clock. `refused` has the path and right that no client has; `requests` are the received
    requests.
    """

    now_ms: Callable[[], int]
    session_ids: Any = field(default_factory=lambda: itertools.count(0x1000))
    zxid: int = 0
    tree: Tree = field(default_factory=dict)
    clients: dict[int, list[Client]] = field(default_factory=dict)
    watches: dict[tuple[str, str], list[tuple[Client, Any]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    requests: list[Any] = field(default_factory=list)
    # Called with a client and its request before it is run; an exception is the response.
    before: Callable[[Client, Any], object] = lambda *_: None
    # Called afterwards; an exception is the response although the request was carried out.
    after: Callable[[Client, Any], object] = lambda *_: None

    def __post_init__(self) -> None:
        self.tree["/"] = Znode(b"", OPEN, 0, (0, 0), (0, 0), 0)

    def client(
        self,
        connect: str,
        session_timeout_ms: int,
        client_id: tuple[int, bytes] | None,
        security: Security,
    ) -> Client:
        """Replaces `make_client`."""
        del session_timeout_ms
        chroot = connect.partition("/")[2]
        return Client(self, f"/{chroot}" if chroot else "", client_id, security)

    def end_session(self, session_id: int) -> None:
        """Notifies the session's clients, and deletes its ephemerals in one transaction."""
        for client in self.clients.pop(session_id, []):
            client.lose(KazooState.LOST)
        tree = Transaction(self, None)
        for path in [path for path, znode in self.tree.items() if znode.owner == session_id]:
            tree.remove(path)
        tree.commit()


class Transaction:
    """Changes to a copy of the tree, by a client or by the servers themselves."""

    def __init__(self, ensemble: Ensemble, client: Client | None) -> None:
        self._ensemble = ensemble
        self._client = client
        self._tree = dict(ensemble.tree)
        self._zxid = ensemble.zxid + 1
        self._fired: list[tuple[str, str]] = []  # kind of watch and path

    def run(self, request: Any) -> Any:
        match request:
            case Create():
                return self._create(request)
            case SetData():
                znode = self._known(request.path, WRITE, request.version)
                now = (self._zxid, self._ensemble.now_ms())
                new = replace(znode, data=request.data, version=znode.version + 1, modified=now)
                self._tree[request.path] = new
                self._fired.append(("data", request.path))
                return new.stat()
            case Delete():
                self._find(_parent(request.path))
                self._check(_parent(request.path), DELETE)
                znode = self._find(request.path)
                if request.version not in (-1, znode.version):
                    raise BadVersionError
                if znode.children:
                    raise NotEmptyError
                self.remove(request.path)
                return True
            case CheckVersion():
                self._known(request.path, READ, request.version)
                return True
        raise AssertionError(request)

    def _create(self, request: Create) -> str:
        path = request.path
        parent = self._find(_parent(path))
        acl = self._client.acl_of(request.acl)
        self._check(_parent(path), CREATE)
        if request.flags & SEQUENTIAL:
            path = f"{path}{parent.made_below:010d}"
        if path in self._tree:
            raise NodeExistsError
        if parent.owner:
            raise NoChildrenForEphemeralsError
        now = (self._zxid, self._ensemble.now_ms())
        owner = self._client.client_id[0] if request.flags & EPHEMERAL else 0
        self._tree[path] = Znode(request.data, acl, owner, now, now, self._zxid)
        self._tree[_parent(path)] = replace(
            parent,
            children=parent.children | {_name(path)},
            children_zxid=self._zxid,
            made_below=parent.made_below + 1,
        )
        self._fired += [("data", path), ("children", _parent(path))]
        return self._client.unchroot(path)

    def remove(self, path: str) -> None:
        del self._tree[path]
        parent = self._tree[_parent(path)]
        self._tree[_parent(path)] = replace(
            parent,
            children=parent.children - {_name(path)},
            children_zxid=self._zxid,
        )
        self._fired += [("data", path), ("children", path), ("children", _parent(path))]

    def _find(self, path: str) -> Znode:
        if path not in self._tree:
            raise NoNodeError
        return self._tree[path]

    def _known(self, path: str, right: int, version: int) -> Znode:
        znode = self._find(path)
        self._check(path, right)
        if version not in (-1, znode.version):
            raise BadVersionError
        return znode

    def _check(self, path: str, right: int) -> None:
        if not self._client.may(self._tree[path], right):
            raise NoAuthError

    def commit(self) -> None:
        self._ensemble.tree = self._tree
        self._ensemble.zxid = self._zxid
        for kind, path in self._fired:
            for client, tell in self._ensemble.watches.pop((kind, path), []):
                if client.is_connected:
                    tell(None)
            if kind == "data":
                _tell_of_trees(self._ensemble, path)


def _tell_of_trees(ensemble: Ensemble, path: str) -> None:
    for client in [client for clients in ensemble.clients.values() for client in clients]:
        for root, tell in list(client._connection.watched_below.items()):
            if path == root or path.startswith(f"{root}/"):
                tell(path)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _name(path: str) -> str:
    return path.rpartition("/")[2]


class Result:
    """A response that is available immediately, or never."""

    def __init__(self, *, is_there: bool = True) -> None:
        self._is_there = is_there
        self._value: Any = None
        self._error: Exception | None = None

    def set(self, value: Any = None) -> None:
        self._value = value

    def set_exception(self, error: Exception) -> None:
        self._error = error

    def ready(self) -> bool:
        return self._is_there

    def rawlink(self, call: Callable[[Any], object]) -> None:
        if self._is_there:
            call(self)

    def get(self, *, block: bool = True) -> Any:
        del block
        if self._error is not None:
            raise self._error
        return self._value


class NeverAnswered(Exception):
    """Raised by `before` or `after`: the client waits for its own timeout."""


@dataclass
class _Handler:
    tls_problem: str = ""

    def async_result(self) -> Result:
        return Result()


@dataclass
class _Connection:
    watched_below: dict[str, Any] = field(default_factory=dict)


class _Transaction:
    def __init__(self, client: Client) -> None:
        self._client = client
        self.operations: list[Any] = []

    def commit_async(self) -> Result:
        return self._client.ask(self, lambda: self._client.run_all(self.operations))

    def create(self, path: str, value: bytes = b"", acl: Any = OPEN) -> None:
        self.operations.append(Create(self._client.full(path), value, acl, 0))

    def commit(self) -> list[Any]:
        return self.commit_async().get()


class Client:
    """A `KazooClient` of an `Ensemble`."""

    def __init__(
        self,
        ensemble: Ensemble,
        chroot: str,
        client_id: tuple[int, bytes] | None,
        security: Security,
    ) -> None:
        self.ensemble = ensemble
        self.chroot = chroot
        self.client_id = client_id
        self.client_state = KeeperState.CONNECTED
        self.last_zxid = 0
        self.handler = _Handler()
        self.is_connected = False
        self._connection = _Connection()
        self._listeners: list[Callable[[str], object]] = []
        self._ids = [
            Id(scheme, make_digest_acl_credential(*credentials.split(":", 1)))
            for scheme, credentials in security.auth
        ]

    # --- the connection

    def add_listener(self, listener: Callable[[str], object]) -> None:
        self._listeners.append(listener)

    def start_async(self) -> None:
        if self.client_id is None or self.client_id[0] not in self.ensemble.clients:
            self.client_id = (next(self.ensemble.session_ids), b"password")
        self.ensemble.clients.setdefault(self.client_id[0], []).append(self)
        self.regain()

    def lose(self, state: str = KazooState.SUSPENDED) -> None:
        """Breaks the connection; with LOST the session ends as well."""
        self.is_connected = False
        self._tell(state)

    def regain(self) -> None:
        self.is_connected = True
        self._tell(KazooState.CONNECTED)

    def _tell(self, state: str) -> None:
        for listener in self._listeners:
            listener(state)

    def stop(self) -> None:
        if self.client_id is not None:
            self.ensemble.clients.get(self.client_id[0], []).clear()
            self.ensemble.end_session(self.client_id[0])
        self.is_connected = False

    def close(self) -> None:
        """Does nothing."""

    # --- rights

    def acl_of(self, asked: Any) -> tuple[ACL, ...]:
        acl: list[ACL] = []
        for item in asked if asked is not None else OPEN:
            if item.id.scheme == "auth":
                acl += [ACL(item.perms, own) for own in self._ids]
            else:
                acl.append(item)
        if not acl:
            raise InvalidACLError
        return tuple(acl)

    def may(self, znode: Znode, right: int) -> bool:
        return any(
            entry.perms & right and (entry.id == Id("world", "anyone") or entry.id in self._ids)
            for entry in znode.acl
        )

    # --- requests

    def ask(self, request: Any, run: Callable[[], Any]) -> Result:
        """Returns the response to a request; a client without a connection gets only that error."""
        result = Result()
        self.ensemble.requests.append(request)
        try:
            if not self.is_connected:
                raise SessionExpiredError
            self.ensemble.before(self, request)
            result.set(run())
            self.last_zxid = self.ensemble.zxid
            self.ensemble.after(self, request)
        except NeverAnswered:
            return Result(is_there=False)
        except exceptions.KazooException as error:
            result.set_exception(error)
        return result

    def run_all(self, requests: list[Any]) -> list[Any]:
        transaction = Transaction(self.ensemble, self)
        answers: list[Any] = []
        for index, request in enumerate(requests):
            try:
                answers.append(transaction.run(request))
            except exceptions.KazooException as error:
                later = len(requests) - index - 1
                return [RolledBackError()] * index + [error] + [RuntimeInconsistency()] * later
        transaction.commit()
        return answers

    def _run(self, request: Any) -> Any:
        transaction = Transaction(self.ensemble, self)
        answer = transaction.run(request)
        transaction.commit()
        return answer

    def transaction(self) -> _Transaction:
        return _Transaction(self)

    def full(self, path: str) -> str:
        return f"{self.chroot}{path}".rstrip("/") or "/"

    def unchroot(self, path: str) -> str:
        return path.removeprefix(self.chroot)

    def create_async(
        self,
        path: str,
        value: bytes | None = b"",
        acl: Any = None,
        *,
        ephemeral: bool = False,
        sequence: bool = False,
    ) -> Result:
        flags = EPHEMERAL * ephemeral | SEQUENTIAL * sequence
        request = Create(self.full(path), value, acl, flags)
        return self.ask(request, lambda: self._run(request))

    def set_async(self, path: str, data: bytes, version: int = -1) -> Result:
        request = SetData(self.full(path), data, version)
        return self.ask(request, lambda: self._run(request))

    def delete_async(self, path: str, version: int = -1) -> Result:
        request = Delete(self.full(path), version)
        return self.ask(request, lambda: self._run(request))

    def set_acls_async(self, path: str, acl: Any) -> Result:
        def run() -> None:
            full, own = self.full(path), self.acl_of(acl)
            znode = self._known(full, ADMIN)
            self.ensemble.zxid += 1
            self.ensemble.tree[full] = replace(znode, acl=own)

        return self.ask(("set_acls", path), run)

    def get_acls_async(self, path: str) -> Result:
        def run() -> Any:
            znode = self._known(self.full(path), READ | ADMIN)
            return list(znode.acl), znode.stat()

        return self.ask(("get_acls", path), run)

    def get_async(self, path: str, watch: Any = None) -> Result:
        def run() -> Any:
            znode = self._known(self.full(path), READ)
            self._watch("data", path, watch)
            return znode.data, znode.stat()

        return self.ask(("get", path), run)

    def exists_async(self, path: str, watch: Any = None) -> Result:
        def run() -> Any:
            self._watch("data", path, watch)
            znode = self.ensemble.tree.get(self.full(path))
            return None if znode is None else znode.stat()

        return self.ask(("exists", path), run)

    def get_children_async(self, path: str, watch: Any = None) -> Result:
        def run() -> Any:
            znode = self._known(self.full(path), READ)
            self._watch("children", path, watch)
            return list(znode.children)

        return self.ask(("get_children", path), run)

    def _call(self, request: Any, result: Result) -> None:
        answer = self.ask(request, lambda: self._raw(request))
        result.__dict__.update(answer.__dict__)

    def _raw(self, request: Any) -> Any:
        if isinstance(request, AddWatch):
            return True
        if isinstance(request, MultiRead):
            return [self._read(request.kind, path) for path in request.paths]
        return self._run(request)

    def _read(self, kind: int, path: str) -> Any:
        try:
            znode = self._known(path, READ)
        except NoNodeError:
            return None
        except NoAuthError:
            return FoundZnode(None, refusal="NoAuth") if kind == GET_DATA else ()
        if kind != GET_DATA:
            return sorted(znode.children)
        stat = znode.stat()
        return FoundZnode(
            *(znode.data, znode.owner, znode.version, stat.ctime, stat.czxid, stat.mzxid),
            children=stat.numChildren,
            modified_ms=stat.mtime,
            children_zxid=stat.pzxid,
        )

    def _known(self, full: str, right: int) -> Znode:
        znode = self.ensemble.tree.get(full)
        if znode is None:
            raise NoNodeError
        if not self.may(znode, right):
            raise NoAuthError
        return znode

    def _watch(self, kind: str, path: str, watch: Any) -> None:
        if watch is not None:
            self.ensemble.watches[kind, self.full(path)].append((self, watch))
