"""The comparison of a whole tree with the image at the published offset."""

import pytest
import trio

from tests.zkcompat import build
from tests.zkcompat.model import compare, render, verify
from tests.zkcompat.rig import PATIENCE, Source, connected, in_step, running, topics
from trimaran.node.runtime.clock import now_ms
from trimaran.zkcompat.comparing.verify import (
    CLAIM_PATHS,
    HIDDEN,
    ReportedDifference,
)
from trimaran.zkcompat.sections.registry import sections_of
from trimaran.zkcompat.tree.claim import TransactionStep
from trimaran.zkcompat.tree.operations import FoundZnode
from trimaran.zkcompat.znodes.entity_config import EntityConfig
from trimaran.zkcompat.znodes.scram_credential import scram_text

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]


async def test_tree_in_step_has_no_differences(connect):
    source = Source(build.broker(1), *topics(2))
    async with running(connect, source) as mirror, connected(connect) as keeper:
        await in_step(mirror, source)
        report = await verify(source.feed, keeper, build.CLUSTER_ID)
        assert report.in_step
        count = len(render(source.image, build.CLUSTER_ID))
        assert report.summary() == (
            f"{count} znodes compared, 0 missing, 0 extra, 0 different, mirror lag 0 records, 0.0 s"
        )


async def test_differences_are_distinguished(connect):
    source = Source(build.broker(1), *topics(2))
    async with running(connect, source) as mirror, connected(connect) as keeper:
        await in_step(mirror, source)
        await keeper.transact(
            [
                TransactionStep("delete", "/config/topics/topic-1"),
                TransactionStep("create", "/config/topics/other", b"{}"),
                TransactionStep("set", "/config/topics/topic-2", b"{}"),
            ]
        )
        report = await verify(source.feed, keeper, build.CLUSTER_ID)
        empty = '{"version":1,"config":{}}'
        assert report.differences == (
            ReportedDifference("missing", "/config/topics/topic-1", expected=empty),
            ReportedDifference("different", "/config/topics/topic-2", empty, "{}"),
            ReportedDifference("extra", "/config/topics/other", found="{}"),
        )
        assert report.settled
        assert not report.in_step
        assert (report.count("missing"), report.count("extra"), report.count("different")) == (
            1,
            1,
            1,
        )


def test_difference_reveals_no_secret():
    """The text is written to terminals and logs, and a report is JSON."""
    image = build.image_of(
        build.scram("alice"), build.quota("consumer_byte_rate", 8.0, user="alice")
    )
    text = scram_text(build.scram("alice"))
    path = "/config/users/alice"
    other = EntityConfig({"SCRAM-SHA-256": text, "consumer_byte_rate": "9"}).encode()
    sections = sections_of(build.CLUSTER_ID, secrets=True)

    def told(path, data):
        found = {path: FoundZnode(data)} if data is not None else {}
        said = compare(found, image, build.CLUSTER_ID, sections)
        return next(difference for difference in said if difference.path == path)

    assert told(path, other) == ReportedDifference(
        "different",
        path,
        EntityConfig({"SCRAM-SHA-256": HIDDEN, "consumer_byte_rate": "8"}).encode().decode(),
        EntityConfig({"SCRAM-SHA-256": HIDDEN, "consumer_byte_rate": "9"}).encode().decode(),
    )
    assert told(path, text.encode()).found == HIDDEN
    assert text not in str(told(path, None))
    stranger = told("/config/users/bob", other)
    assert (stranger.kind, text in str(stranger)) == ("extra", False)
    # The last one is a key of topics, which brokers do not know.
    names = ("ssl.keystore.password", "my.plugin", "retention.ms")
    secrets = dict.fromkeys(names, "encoded")
    data = EntityConfig({"log.cleaner.threads": "2", **secrets}).encode()
    assert data.decode().count("encoded") == 3
    assert "encoded" not in str(told("/config/brokers/1", data))


async def test_tree_written_meanwhile_is_in_step(connect):
    source = Source(build.broker(1), *topics(20))
    async with running(connect, source) as mirror, connected(connect) as keeper:
        await in_step(mirror, source)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_keep_changing, source, mirror)
            for _ in range(5):
                with trio.fail_after(PATIENCE):
                    report = await verify(source.feed, keeper, build.CLUSTER_ID, PATIENCE)
                assert report.in_step, report
            nursery.cancel_scope.cancel()


async def _keep_changing(source, mirror):
    """Creates and deletes a topic, with pauses as long as one read of the tree, and appends idle batches continuously."""
    topic_id = b"\x77" * 16
    while True:
        source.say(build.topic("moving", topic_id), build.partition(topic_id, 0, [1]))
        for _ in range(30):
            source.say()
            await in_step(mirror, source)
        source.say(build.remove_topic(topic_id))
        await in_step(mirror, source)


async def test_late_mirror_shows_lag(connect):
    source = Source(build.broker(1), *topics(1))
    async with running(connect, source) as mirror:
        await in_step(mirror, source)
        offset = source.offset
    source.say(build.producer_ids(1000))
    source.say()
    async with connected(connect) as keeper:
        report = await verify(source.feed, keeper, build.CLUSTER_ID, 1.0)
    assert (report.offset, report.lag_records) == (offset, 2)
    committed_ms = source.image.provenance.timestamp_ms
    assert now_ms() - 60_000 < committed_ms + report.lag_ms <= now_ms()
    # The mirror's session has ended, and so its brokers and its claim are gone.
    assert report.differences == (
        ReportedDifference(
            "missing",
            "/brokers/ids/1",
            render(source.image, build.CLUSTER_ID)["/brokers/ids/1"].data.decode(),
        ),
        ReportedDifference("missing", "/controller", "controller 1 of epoch 1"),
    )


async def test_tree_without_mirror_is_not_settled(connect):
    source = Source(build.broker(1))
    async with connected(connect) as keeper:
        await keeper.ensure("/", None)
        report = await verify(source.feed, keeper, build.CLUSTER_ID, 3)
    assert not report.settled
    assert not report.in_step
    assert report.count("missing") == len(render(source.image, build.CLUSTER_ID)) + len(CLAIM_PATHS)


def test_persistent_broker_znode_is_a_difference():
    image = build.image_of(build.broker(1))
    found = {p: FoundZnode(z.data) for p, z in render(image, build.CLUSTER_ID).items()}
    assert [d.kind for d in compare(found, image, build.CLUSTER_ID)] == ["different"]
