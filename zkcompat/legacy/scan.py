"""Finds the writes of tools: by reading the tree when a mirror begins, and by their notes afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import trio

from trimaran.quorum.metadata.image import MetadataImage
from trimaran.zkcompat.legacy.change_notes import newest_notes, written_by_tools
from trimaran.zkcompat.legacy.pending_requests import PendingToolRequests
from trimaran.zkcompat.legacy.requests import deletions, topics
from trimaran.zkcompat.legacy.requests.admin_requests import RequestKind
from trimaran.zkcompat.legacy.requests.elections import PREFERRED_REPLICA_ELECTION
from trimaran.zkcompat.legacy.requests.reassignments import REASSIGN_PARTITIONS
from trimaran.zkcompat.legacy.tool_writes import NOTE_ROOTS, ToolWrite
from trimaran.zkcompat.mirroring.tenure import Tenure
from trimaran.zkcompat.znodes.topic_assignment import BROKER_TOPICS
from trimaran.zkcompat.zookeeper.keeper import Keeper

# Read and decoded in a few milliseconds.
ZNODES_AT_ONCE = 200

GoneSince = Callable[[Sequence[str]], Awaitable[Mapping[str, int]]]


async def _always(paths: Sequence[str]) -> Mapping[str, int]:
    await trio.lowlevel.checkpoint()
    return dict.fromkeys(paths, 0)


async def scan_requests(keeper: Keeper, pending: PendingToolRequests) -> None:
    """Records the requests in `/admin`."""
    pending.on_watch_event(REASSIGN_PARTITIONS)
    pending.on_watch_event(PREFERRED_REPLICA_ELECTION)
    for name in await keeper.children(deletions.DELETE_TOPICS):
        pending.on_watch_event(f"{deletions.DELETE_TOPICS}/{name}")


async def scan_topics(
    keeper: Keeper, image: MetadataImage, pending: PendingToolRequests, *, known: bool
) -> None:
    """Records topics that tools created or extended; `known`: a mirror has written the tree before."""
    names = await keeper.children(BROKER_TOPICS)
    for at in range(0, len(names), ZNODES_AT_ONCE):
        paths = [f"{BROKER_TOPICS}/{name}" for name in names[at : at + ZNODES_AT_ONCE]]
        found = await keeper.read_many(paths)
        await trio.lowlevel.checkpoint()
        for path, znode in found.items():
            name = path.rpartition("/")[2]
            if known and topics.decide(name, znode.data, None, image) is not None:
                pending.on_watch_event(path)
            elif name not in image.topics.by_name:
                pending.settle(ToolWrite(RequestKind.TOPIC, path), ownerless=True)


async def scan_notes(tenure: Tenure, pending: PendingToolRequests) -> None:
    """Records entities that tools changed while no mirror led."""
    for root in NOTE_ROOTS:
        for name in await tenure.keeper.children(root):
            pending.on_watch_event(f"{root}/{name}")

    async def since(paths: Sequence[str]) -> Mapping[str, int]:
        return await _gone_since(tenure, paths)

    while pending.notes:
        await read_notes(tenure.keeper, pending, since)


async def read_notes(
    keeper: Keeper, pending: PendingToolRequests, gone_since: GoneSince = _always
) -> None:
    """Adds the entities that some of the notes refer to, if a tool wrote those notes. `gone_since`: see
    `written_by_tools`.
    """
    paths = list(pending.notes)[:ZNODES_AT_ONCE]
    if not paths:
        return
    for path in paths:
        del pending.notes[path]
    written = newest_notes(await keeper.read_many(paths))
    entities = await keeper.read_many([tool_write.path for tool_write in written])
    gone = await gone_since([s.path for s in written if s.path not in entities])
    for tool_write in written_by_tools(written, entities, gone):
        pending.add(tool_write)


async def _gone_since(tenure: Tenure, paths: Sequence[str]) -> Mapping[str, int]:
    before = tenure.shown_before
    if before is None:
        return dict.fromkeys(paths, tenure.written_before)
    stood = [path for path in paths if tenure.wanted(path, before) is not None]
    parents = {path: path.rpartition("/")[0] for path in stood}
    found = await tenure.keeper.read_many(list(dict.fromkeys(parents.values())))
    return {path: found[up].children_zxid for path, up in parents.items() if up in found}
