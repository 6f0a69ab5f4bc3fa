"""What the command line calls: plain blocking functions with plain results.

Each runs trio itself. Errors that people can act on are the classes named here; everything else is a bug. Left out:
printing.
"""

from __future__ import annotations

import fcntl
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TypeVar

import trio

from trimaran.node.runtime.clock import now_ms
from trimaran.wire.client.bootstrap import Address
from trimaran.wire.security.listener import ClientSecurity
from trimaran.zkcompat import events
from trimaran.zkcompat.legacy.admin import LegacyAdmin
from trimaran.zkcompat.legacy.controller import ActiveController
from trimaran.zkcompat.legacy.settings import obeyed_kinds
from trimaran.zkcompat.mirroring.connecting import TLS_REMEDY
from trimaran.zkcompat.mirroring.mirror import Mirror
from trimaran.zkcompat.mirroring.observer import (
    QuorumUnreachableError,
    find_cluster_id,
    open_observer,
    parse_controllers,
)
from trimaran.zkcompat.mirroring.tenure import WrongClusterError
from trimaran.zkcompat.settings import (
    NONE,
    Properties,
    keeper_config,
    mirror_config,
    quorum_security,
)
from trimaran.zkcompat.tree import FoundZnode
from trimaran.zkcompat.znodes.broker_info import BROKER_IDS
from trimaran.zkcompat.znodes.cluster_id import ClusterId
from trimaran.zkcompat.znodes.controller import Controller, ControllerEpoch
from trimaran.zkcompat.znodes.fields import decode_or_none
from trimaran.zkcompat.znodes.migration import Migration
from trimaran.zkcompat.znodes.mirror_report import REPORT_PARENTS, MirrorReport
from trimaran.zkcompat.znodes.topic_assignment import BROKER_TOPICS
from trimaran.zkcompat.zookeeper.errors import (
    PathRefusedError,
    UncertainOutcomeError,
    ZooKeeperTooOldError,
)
from trimaran.zkcompat.zookeeper.keeper import Keeper, open_keeper
from trimaran.zkcompat.zookeeper.session_file import SESSION_FILE

__all__ = [
    "MirrorLockedError",
    "QuorumUnreachableError",
    "TreeEntry",
    "WrongClusterError",
    "ZNodeRefusedError",
    "ZooKeeperStatus",
    "ZooKeeperTooOldError",
    "ZooKeeperUnreachableError",
    "get",
    "run_mirror",
    "status",
    "tree",
]

CONNECT_SECONDS = 5.0
QUORUM_SECONDS = 10.0
# A mirror tells of itself every 5 s, and hears of the quorum twice a second.
SILENCE_MS = 15_000
STATUS_PARENTS = (BROKER_IDS, BROKER_TOPICS, REPORT_PARENTS[-1])
FIRST_WORD_SECONDS = 1.0  # a quorum that is up answers in milliseconds
# A broker id has 10 digits at most; somebody else's znode may have any name.
BROKER_DIGITS_MAX = 10
# `tree` is for people; a whole tree of 50,000 partitions is read by `verify`, which keeps it for itself.
TREE_ENTRIES_MAX = 100_000

log = logging.getLogger(__name__)

T = TypeVar("T")
Beside = Callable[[], AbstractAsyncContextManager[Callable[[Mirror], object]]]


def nobody_beside() -> AbstractAsyncContextManager[Callable[[Mirror], object]]:
    """Nobody wants to know of the mirror."""
    return nullcontext(lambda _: None)


class ZooKeeperUnreachableError(Exception):
    """No ZooKeeper at the given address within the time limit."""


class ZNodeRefusedError(Exception):
    """ZooKeeper does not let this user look at a znode, or write it."""


class MirrorLockedError(Exception):
    """Another mirror process uses this state directory, and with it the ZooKeeper session."""


@dataclass(frozen=True, slots=True)
class ZooKeeperStatus:
    """What the tree says about itself and its mirrors; None where it says nothing readable.

    `mirror` is the one that leads, None when none says so. `claim_session` owns `/controller`, 0 when nobody does.
    `unreadable` are paths that this user may not look at.
    """

    connect: str
    cluster_id: str | None
    controller_id: int | None
    kraft_controller_epoch: int | None
    controller_epoch: int | None
    published_offset: int | None
    published_epoch: int | None
    dirty: bool
    claim_session: int
    live_brokers: tuple[int, ...]
    topics: int
    mirror: MirrorReport | None
    standbys: tuple[MirrorReport, ...]
    asked_ms: int
    unreadable: tuple[str, ...] = ()

    @property
    def lag_records(self) -> int | None:
        """How many records of the quorum's log the tree does not show."""
        if self.mirror is None or self.published_offset is None:
            return None
        return max(0, self.mirror.quorum_offset - self.published_offset)

    @property
    def mirror_alive(self) -> bool:
        """A mirror leads, and said so lately; one that is frozen does not, and one that died is gone."""
        return self.mirror is not None and abs(self.asked_ms - self.mirror.told_ms) < SILENCE_MS

    @property
    def quorum_alive(self) -> bool:
        """The mirror heard from the quorum lately."""
        heard = self.mirror.quorum_heard_ms if self.mirror is not None else -1
        return heard >= 0 and abs(self.asked_ms - heard) < SILENCE_MS

    @property
    def healthy(self) -> bool:
        """Mirror and quorum are alive, and nothing is held back."""
        return (
            self.mirror is not None
            and self.mirror_alive
            and self.quorum_alive
            and not self.mirror.quarantined
        )


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """`text` is None for no data; times are by the clock of ZooKeeper's leader. `refusal` is ZooKeeper's error where
    the znode must not be read.
    """

    path: str
    text: str | None
    ephemeral: bool
    version: int
    created_ms: int
    modified_ms: int
    refusal: str = ""


def run_mirror(
    bootstrap_controllers: str,
    zookeeper_connect: str,
    state_dir: Path,
    properties: Properties = NONE,
    beside: Beside = nobody_beside,
) -> None:
    """Mirrors until SIGTERM or SIGINT. The ZooKeeper session is left to its time-out, for a restart to take up.

    `beside` is a block around all of it, whose value is told of the mirror once the quorum was found.
    Raises ValueError, MirrorLockedError, QuorumUnreachableError, WrongClusterError or ZooKeeperTooOldError.
    """
    bootstrap = parse_controllers(bootstrap_controllers)
    config = mirror_config(properties)
    zookeeper = keeper_config(zookeeper_connect, properties)
    security = quorum_security(properties)
    kinds = obeyed_kinds(properties)
    state_dir.mkdir(parents=True, exist_ok=True)
    session_file = trio.Path(state_dir / SESSION_FILE)

    async def mirror() -> None:
        async with beside() as found:
            cluster_id = await _forever_cluster_id(bootstrap, security)
            async with (
                open_observer(cluster_id, bootstrap, security) as feed,
                open_keeper(zookeeper, session_file, keep_session=True) as keeper,
            ):
                admin = LegacyAdmin(ActiveController(feed.leader_address, security), kinds)
                this = Mirror(feed, keeper, cluster_id, config, [admin])
                found(this)
                await this.run()

    with _locked(state_dir):
        _run(partial(_until_signal, mirror))


def status(zookeeper_connect: str, properties: Properties = NONE) -> ZooKeeperStatus:
    """What is not to be read is left out and named. Raises ZooKeeperUnreachableError or ZNodeRefusedError."""
    return with_keeper(zookeeper_connect, properties, _status)


def tree(
    zookeeper_connect: str,
    path: str = "/",
    entries_max: int = TREE_ENTRIES_MAX,
    properties: Properties = NONE,
) -> list[TreeEntry]:
    """`path` and what is below it, sorted; of more than `entries_max` those that are the least deep.

    Raises ZooKeeperUnreachableError or ZNodeRefusedError.
    """

    async def read(keeper: Keeper) -> list[TreeEntry]:
        root = path.rstrip("/")
        found = await keeper.read_tree([root or "/"], [], znodes_max=entries_max)
        return [_entry(p, z) for p, z in sorted(found.items())]

    return with_keeper(zookeeper_connect, properties, read)


def get(zookeeper_connect: str, path: str, properties: Properties = NONE) -> TreeEntry | None:
    """One znode, None if it is not there. Raises ZooKeeperUnreachableError or ZNodeRefusedError."""

    async def read(keeper: Keeper) -> TreeEntry | None:
        found = await keeper.read(path)
        return None if found is None else _entry(path, found)

    return with_keeper(zookeeper_connect, properties, read)


async def _status(keeper: Keeper) -> ZooKeeperStatus:
    paths = (ClusterId.PATH, Controller.PATH, ControllerEpoch.PATH, Migration.PATH)
    found = await keeper.read_many(paths)
    cluster_id = _decoded(found, ClusterId.PATH, ClusterId.decode)
    controller = _decoded(found, Controller.PATH, Controller.decode)
    controller_epoch = _decoded(found, ControllerEpoch.PATH, ControllerEpoch.decode)
    state = _decoded(found, Migration.PATH, Migration.decode)
    claim = found.get(Controller.PATH)
    unreadable = [path for path, znode in found.items() if znode.refusal]
    children = {path: await _children(keeper, path, unreadable) for path in STATUS_PARENTS}
    ids = [name for name in children[BROKER_IDS] if name.isascii() and name.isdecimal()]
    reports = await _reports(keeper, children[REPORT_PARENTS[-1]], claim.owner if claim else 0)
    return ZooKeeperStatus(
        connect=keeper.config.connect,
        cluster_id=None if cluster_id is None else cluster_id.id,
        controller_id=None if controller is None else controller.broker_id,
        kraft_controller_epoch=None if controller is None else controller.kraft_controller_epoch,
        controller_epoch=None if controller_epoch is None else controller_epoch.epoch,
        published_offset=None if state is None else state.offset,
        published_epoch=None if state is None else state.epoch,
        dirty=state is not None and state.dirty,
        claim_session=claim.owner if claim else 0,
        live_brokers=tuple(sorted(int(name) for name in ids if len(name) <= BROKER_DIGITS_MAX)),
        topics=len(children[BROKER_TOPICS]),
        mirror=next((report for report in reports if report.leads), None),
        standbys=tuple(report for report in reports if not report.leads),
        asked_ms=now_ms(),
        unreadable=tuple(unreadable),
    )


async def _children(keeper: Keeper, path: str, unreadable: list[str]) -> list[str]:
    try:
        return await keeper.children(path)
    except PathRefusedError:
        unreadable.append(path)
        return []


async def _reports(keeper: Keeper, names: Sequence[str], claimant: int) -> list[MirrorReport]:
    """Of all mirrors that are there: that of the claim's session first, then the freshest. What is not of the session
    that made it is no mirror's.
    """
    found = await keeper.read_many([f"{REPORT_PARENTS[-1]}/{name}" for name in names])
    known: list[tuple[bool, int, MirrorReport]] = []
    for path, znode in found.items():
        report = decode_or_none(MirrorReport.decode, znode.data)
        if report is not None and znode.owner and path == MirrorReport.path(znode.owner):
            known.append((znode.owner == claimant, report.told_ms, report))
    return [report for *_, report in sorted(known, key=itemgetter(0, 1), reverse=True)]


def _decoded(
    found: Mapping[str, FoundZnode], path: str, decode: Callable[[bytes | None], T]
) -> T | None:
    return decode_or_none(decode, found[path].data) if path in found else None


def _entry(path: str, znode: FoundZnode) -> TreeEntry:
    text = None if znode.data is None else znode.data.decode("utf-8", "replace")
    times = (znode.created_ms, znode.modified_ms)
    return TreeEntry(path, text, znode.owner != 0, znode.version, *times, znode.refusal)


def with_keeper(connect: str, properties: Properties, use: Callable[[Keeper], Awaitable[T]]) -> T:
    """Runs trio with a session.

    Raises ZooKeeperUnreachableError, ZNodeRefusedError, ZooKeeperTooOldError, ValueError.
    """
    config = keeper_config(connect, properties)

    async def main() -> T:
        async with open_keeper(config) as keeper:
            if not await keeper.wait_connected(CONNECT_SECONDS):
                raise ZooKeeperUnreachableError(_why_unreachable(connect, keeper))
            await keeper.require_modern_server()
            return await use(keeper)

    try:
        return _run(main)
    except PathRefusedError as error:
        raise ZNodeRefusedError(f"ZooKeeper at {connect}: {error}") from error
    except UncertainOutcomeError as error:
        raise ZooKeeperUnreachableError(f"ZooKeeper at {connect}: {error}") from error


def _why_unreachable(connect: str, keeper: Keeper) -> str:
    if keeper.is_refused:
        keys = "trimaran.zk.auth or trimaran.zk.sasl.jaas.config"
        return f"{connect} refuses the user of {keys}: correct name and password"
    if problem := keeper.tls_problem:
        return f"TLS with {connect} failed: {problem}; {TLS_REMEDY}"
    return f"no ZooKeeper at {connect} within {CONNECT_SECONDS:.0f} s"


async def _forever_cluster_id(bootstrap: list[Address], security: ClientSecurity) -> str:
    """A mirror may be started before its quorum; it waits, and says so at once."""
    try:
        return await find_cluster_id(bootstrap, FIRST_WORD_SECONDS, security)
    except QuorumUnreachableError as error:
        events.MIRROR_RETRYING.log(log, error=error)
    while True:
        try:
            return await find_cluster_id(bootstrap, QUORUM_SECONDS, security)
        except QuorumUnreachableError:
            continue


async def _until_signal(work: Callable[[], Awaitable[None]]) -> None:
    """Runs `work`; the first SIGTERM or SIGINT cancels it."""
    async with trio.open_nursery() as nursery:

        async def listen() -> None:
            with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                async for _ in signals:
                    nursery.cancel_scope.cancel()

        nursery.start_soon(listen)
        await work()
        nursery.cancel_scope.cancel()


def _run(main: Callable[[], Awaitable[T]]) -> T:
    """trio.run, with a single exception taken out of the groups that nurseries put around it."""
    try:
        return trio.run(main)
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None


@contextmanager
def _locked(state_dir: Path) -> Iterator[None]:
    """Two processes with one session would overtake each other for ever."""
    handle = os.open(state_dir / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MirrorLockedError(f"another mirror uses {state_dir}") from None
        yield
    finally:
        os.close(handle)
