"""`status`, `tree` and `get`: the tree as it is in ZooKeeper. They send no requests to the quorum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeVar

from trimaran.node.runtime.clock import now_ms
from trimaran.wire.identity import (
    NO_TIMESTAMP,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
)
from trimaran.zkcompat.commands.session import with_keeper
from trimaran.zkcompat.settings import NONE, Properties
from trimaran.zkcompat.tree.operations import FoundZnode
from trimaran.zkcompat.znodes.broker_info import BROKER_IDS
from trimaran.zkcompat.znodes.cluster_id import ClusterId
from trimaran.zkcompat.znodes.controller import ControllerEpochZnode, ControllerZnode
from trimaran.zkcompat.znodes.json_form import decode_or_none
from trimaran.zkcompat.znodes.migration import Migration
from trimaran.zkcompat.znodes.mirror_report import REPORT_PARENTS, MirrorReport
from trimaran.zkcompat.znodes.topic_assignment import BROKER_TOPICS
from trimaran.zkcompat.zookeeper.errors import PathRefusedError
from trimaran.zkcompat.zookeeper.keeper import Keeper

# A mirror reports every 5 s, and receives a record of the quorum twice a second.
SILENCE_MS = 15_000
STATUS_PARENTS = (BROKER_IDS, BROKER_TOPICS, REPORT_PARENTS[-1])
# A broker id has 10 digits at most; a znode of another client may have any name.
BROKER_DIGITS_MAX = 10
# The output of `tree` is for people; only `verify` reads a whole tree of 50,000 partitions.
TREE_ENTRIES_MAX = 100_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ZooKeeperStatus:
    """The state of the tree and its mirrors; None for each znode that is absent or unreadable.

    `mirror` is the report of the leading mirror, None if no mirror reports that it leads. `claim_session` is the
    session that owns `/controller`, 0 if there is none. `unreadable` are paths that this user may not read.
    """

    connect: str
    cluster_id: str | None
    controller_id: NodeId | None
    kraft_controller_epoch: LeaderEpoch | None
    controller_epoch: ControllerEpoch | None
    published_offset: Offset | None
    published_epoch: LeaderEpoch | None
    dirty: bool
    claim_session: int
    live_brokers: tuple[BrokerId, ...]
    topics: int
    mirror: MirrorReport | None
    standbys: tuple[MirrorReport, ...]
    asked_ms: int
    unreadable: tuple[str, ...] = ()

    @property
    def lag_records(self) -> int | None:
        """The number of records of the quorum's log that the tree does not show."""
        if self.mirror is None or self.published_offset is None:
            return None
        return max(0, self.mirror.quorum_offset - self.published_offset)

    @property
    def mirror_alive(self) -> bool:
        """A mirror leads and has reported recently. A frozen mirror does not report; the report of a dead one is
        gone.
        """
        return self.mirror is not None and abs(self.asked_ms - self.mirror.told_ms) < SILENCE_MS

    @property
    def quorum_alive(self) -> bool:
        """The mirror received a commit from the quorum recently."""
        heard = self.mirror.quorum_heard_ms if self.mirror is not None else NO_TIMESTAMP
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
    """A znode of the tree; `text` is None if it has no data; times are by the clock of ZooKeeper's leader. `refusal` is
    ZooKeeper's error if the znode may not be read.
    """

    path: str
    text: str | None
    ephemeral: bool
    version: int
    created_ms: int
    modified_ms: int
    refusal: str = ""


def status(zookeeper_connect: str, properties: Properties = NONE) -> ZooKeeperStatus:
    """Returns the status; znodes that may not be read are omitted and named. Raises ZooKeeperUnreachableError or
    ZNodeRefusedError.
    """
    return with_keeper(zookeeper_connect, properties, _status)


def tree(
    zookeeper_connect: str,
    path: str = "/",
    entries_max: int = TREE_ENTRIES_MAX,
    properties: Properties = NONE,
) -> list[TreeEntry]:
    """Returns `path` and the znodes below it, sorted: at most `entries_max`, shallowest first.

    Raises ZooKeeperUnreachableError or ZNodeRefusedError.
    """

    async def read(keeper: Keeper) -> list[TreeEntry]:
        root = path.rstrip("/")
        found = await keeper.read_tree([root or "/"], [], znodes_max=entries_max)
        return [_entry(p, z) for p, z in sorted(found.items())]

    return with_keeper(zookeeper_connect, properties, read)


def get(zookeeper_connect: str, path: str, properties: Properties = NONE) -> TreeEntry | None:
    """Returns one znode, None if it does not exist. Raises ZooKeeperUnreachableError or ZNodeRefusedError."""

    async def read(keeper: Keeper) -> TreeEntry | None:
        found = await keeper.read(path)
        return None if found is None else _entry(path, found)

    return with_keeper(zookeeper_connect, properties, read)


async def _status(keeper: Keeper) -> ZooKeeperStatus:
    paths = (ClusterId.PATH, ControllerZnode.PATH, ControllerEpochZnode.PATH, Migration.PATH)
    found = await keeper.read_many(paths)
    cluster_id = _decoded(found, ClusterId.PATH, ClusterId.decode)
    controller = _decoded(found, ControllerZnode.PATH, ControllerZnode.decode)
    controller_epoch = _decoded(found, ControllerEpochZnode.PATH, ControllerEpochZnode.decode)
    state = _decoded(found, Migration.PATH, Migration.decode)
    claim = found.get(ControllerZnode.PATH)
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
        live_brokers=tuple(
            sorted(BrokerId(name) for name in ids if len(name) <= BROKER_DIGITS_MAX)
        ),
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
    """Returns the reports of all live mirrors: first that of the claim's session, then the newest first. A report whose
    name is not that of its owner's session is forged and is skipped.
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
