"""A mirror in this process; tests supply its metadata."""

from contextlib import asynccontextmanager

import trio

from tests.zkcompat import build
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import EMPTY, Provenance
from trimaran.zkcompat.comparing.verify import TreeVerification
from trimaran.zkcompat.mirroring.mirror import VERIFY_SHARE, Mirror, MirrorConfig
from trimaran.zkcompat.quorum_feed.feed import ImageFeed
from trimaran.zkcompat.sections.registry import sections_of
from trimaran.zkcompat.tree.claim import QuorumLeader
from trimaran.zkcompat.zookeeper.kazoo_client import Security
from trimaran.zkcompat.zookeeper.keeper import open_keeper
from trimaran.zkcompat.zookeeper.session import KeeperConfig

# Longer than a loaded machine needs: a test that waits this long has failed.
PATIENCE = 20.0
# How long a machine or a disk may pause without ending a session; a test that waits for a session's end uses the short
# timeout.
SESSION_MS = 12_000
SHORT_SESSION_MS = 1500
NEVER = 1e6


class Source:
    """The metadata of a quorum, supplied by the test."""

    def __init__(self, *records):
        self.feed = ImageFeed()
        self.feed.lead_by(QuorumLeader(1, 1))
        self.say(*records)
        self.feed.caught_up()

    @property
    def image(self):
        return self.feed.image

    @property
    def offset(self):
        return self.feed.image.provenance.offset

    def say(self, *records, epoch=1):
        delta = MetadataDelta(self.feed.image)
        for record in records:
            delta.replay(record)
        offset = self.offset + max(1, len(records))
        image = delta.apply(Provenance(offset, epoch, 1_795_221_879_206))
        self.feed.publish(delta, image, None)


def topics(count, partitions=2):
    records = []
    for number in range(1, count + 1):
        topic_id = number.to_bytes(16, "big")
        records.append(build.topic(f"topic-{number}", topic_id))
        records += [build.partition(topic_id, index, [1, 2]) for index in range(partitions)]
    return records


@asynccontextmanager
async def running(connect, source, **settings):
    """Runs a mirror during the body; without an interval it does not verify."""
    config = MirrorConfig(
        batch_operations=settings.pop("batch_operations", 200),
        verify_share=VERIFY_SHARE if "verify_interval_seconds" in settings else 0.0,
        verify_interval_seconds=settings.pop("verify_interval_seconds", NEVER),
        secrets=settings.pop("secrets", False),
    )
    companions = settings.pop("companions", ())
    settings = _secured(settings)
    session_file = settings.pop("session_file", None)
    keeper_config = KeeperConfig(
        connect, settings.pop("session_timeout_ms", SESSION_MS), **settings
    )
    async with open_keeper(keeper_config, session_file) as keeper, trio.open_nursery() as nursery:
        mirror = Mirror(source.feed, keeper, build.CLUSTER_ID, config, companions)
        nursery.start_soon(mirror.run)
        yield mirror
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def connected(connect, **settings):
    """Opens another client, like that of a user with a ZooKeeper shell."""
    async with open_keeper(KeeperConfig(connect, 4000, **_secured(settings))) as keeper:
        assert await keeper.wait_connected(PATIENCE)
        yield keeper


async def reached(mirror, wanted):
    with trio.fail_after(PATIENCE):
        await mirror.wait_status(wanted)


async def in_step(mirror, source):
    await reached(mirror, lambda s: s.state == "in step" and s.published_offset == source.offset)


async def differences(keeper, source, *, secrets=False):
    """Returns the faults that an independent observer finds in the current tree, including the claim."""
    sections = sections_of(build.CLUSTER_ID, secrets=secrets)
    report = await TreeVerification(source.feed, keeper, sections).attempt()
    return report.differences


def _secured(settings):
    auth = settings.pop("auth", ())
    security = settings.pop("security", Security(auth=tuple(auth)))
    return {**settings, "security": security}


IMAGE_EMPTY = EMPTY
