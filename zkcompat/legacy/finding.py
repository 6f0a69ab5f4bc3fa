"""Finds what tools wrote: by reading when a mirror begins, and by their notes afterwards."""

from __future__ import annotations

import trio

from quorum.metadata.image import MetadataImage
from zkcompat.legacy import deletions, topics
from zkcompat.legacy.desk import Desk
from zkcompat.legacy.elections import PREFERRED_REPLICA_ELECTION
from zkcompat.legacy.notes import left_by_tools, newest_notes
from zkcompat.legacy.orders import Kind
from zkcompat.legacy.reassignments import REASSIGN_PARTITIONS
from zkcompat.legacy.subjects import NOTE_ROOTS, Subject
from zkcompat.znodes.topic_assignment import BROKER_TOPICS
from zkcompat.zookeeper.keeper import Keeper

# Read and decoded in a few milliseconds.
ZNODES_AT_ONCE = 200


async def find_requests(keeper: Keeper, desk: Desk) -> None:
    """What stands in `/admin`."""
    desk.hear(REASSIGN_PARTITIONS)
    desk.hear(PREFERRED_REPLICA_ELECTION)
    for name in await keeper.children(deletions.DELETE_TOPICS):
        desk.hear(f"{deletions.DELETE_TOPICS}/{name}")


async def find_topics(keeper: Keeper, image: MetadataImage, desk: Desk, *, known: bool) -> None:
    """Topics that tools made or gave partitions; `known`: a mirror wrote the tree before."""
    names = await keeper.children(BROKER_TOPICS)
    for at in range(0, len(names), ZNODES_AT_ONCE):
        paths = [f"{BROKER_TOPICS}/{name}" for name in names[at : at + ZNODES_AT_ONCE]]
        found = await keeper.read_many(paths)
        await trio.lowlevel.checkpoint()
        for path, znode in found.items():
            name = path.rpartition("/")[2]
            if known and topics.decide(name, znode.data, None, image) is not None:
                desk.hear(path)
            elif name not in image.topics.by_name:
                desk.settle(Subject(Kind.TOPIC, path), stands=True)


async def find_notes(keeper: Keeper, desk: Desk, mirror_zxid: int) -> None:
    """Entities that tools changed while no mirror led."""
    for root in NOTE_ROOTS:
        for name in await keeper.children(root):
            desk.hear(f"{root}/{name}")
    while desk.notes:
        await read_notes(keeper, desk, mirror_zxid)


async def read_notes(keeper: Keeper, desk: Desk, mirror_zxid: int = 0) -> None:
    """Adds the entities that some of the notes tell of, if a tool wrote those."""
    paths = list(desk.notes)[:ZNODES_AT_ONCE]
    if not paths:
        return
    for path in paths:
        del desk.notes[path]
    written = newest_notes(await keeper.read_many(paths))
    entities = await keeper.read_many([subject.path for subject in written])
    for subject in left_by_tools(written, entities, mirror_zxid):
        desk.add(subject)
