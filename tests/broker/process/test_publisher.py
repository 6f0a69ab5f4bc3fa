"""The broker's partitions match the image, whichever way it was reached."""

import random

import pytest
import trio
import trio.testing

from tests.cluster.data_side import open_harness
from tests.quorum.metadata.build import SOMEWHERE, change, partition, replay, topic, uid
from trimaran.broker.process.publisher import PARTITIONS_AT_ONCE, BrokerPublisher
from trimaran.broker.storage.new_replicas import Standing
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import EMPTY, MetadataImage
from trimaran.quorum.metadata.loader import Manifest, MetadataLoader
from trimaran.quorum.metadata.records import image_to_records
from trimaran.wire.identity import TopicPartition
from trimaran.wire.records.topics import RemoveTopicRecord

NODE = 11


@pytest.fixture(autouse=True)
def in_many_turns(monkeypatch):
    monkeypatch.setattr("trimaran.node.runtime.pacing.HOLD_SECONDS_MAX", 0)


def published(harness, report=lambda: None) -> BrokerPublisher:
    return BrokerPublisher(
        harness.metadata, harness.partitions, harness.settings, harness.directories, report
    )


def here(harness) -> dict:
    return {(partition.topic, partition.index): partition.state for partition in harness.partitions}


def wanted(image: MetadataImage) -> dict:
    return {
        (topic.name, index): state
        for topic in image.topics.by_name.values()
        for index, state in topic.partitions.items()
        if NODE in state.replicas
    }


def next_records(prng: random.Random, image: MetadataImage, number: int) -> list:
    """Draws records that create, delete or recreate a topic, or change or move some of its partitions."""
    names = sorted(image.topics.by_name)
    kind = prng.randrange(4) if names else 0
    if kind == 0:
        name = f"t{number}"
        made = [partition(number, i, prng.sample([NODE, 12, 13], 2)) for i in range(4)]
        return [topic(name, number), *made]
    known = image.topics.by_name[prng.choice(names)]
    if kind == 1:
        return [RemoveTopicRecord(topic_id=known.id)]
    if kind == 2:
        anew = [topic(known.name, number), partition(number, 0, [NODE, 12])]
        return [RemoveTopicRecord(topic_id=known.id), *anew]
    replicas = prng.sample([NODE, 12, 13], 2)
    moved = change(0, 1, replicas=replicas, isr=replicas, leader=replicas[0], directories=[uid(1), uid(2)])  # fmt: skip
    moved.topic_id, moved.partition_id = known.id, prng.choice(list(known.partitions))
    return [moved]


async def test_partitions_match_image_after_every_delta(tmp_path):
    harness = open_harness(tmp_path, NODE)
    publisher = published(harness)
    await publisher.activate()
    prng, image = random.Random(5), EMPTY
    for number in range(150):
        delta = replay(next_records(prng, image, number), image)
        image = delta.apply(SOMEWHERE)
        publisher.publish(delta, image, Manifest(SOMEWHERE))
        assert here(harness) == wanted(image)


async def test_snapshot_is_published_as_difference(tmp_path):
    harness = open_harness(tmp_path, NODE)
    publisher = published(harness)
    loader = MetadataLoader([publisher])
    await publisher.activate()
    prng = random.Random(6)
    for _ in range(30):
        image = loader.image
        for _ in range(5):
            records = next_records(prng, image, prng.randrange(10_000))
            image = replay(records, image).apply(SOMEWHERE)
        delta = MetadataDelta(loader.image)
        for record in image_to_records(image):
            delta.replay(record)
        delta.finish_snapshot()
        loader.image = delta.apply(SOMEWHERE)
        publisher.publish(delta, loader.image, Manifest(SOMEWHERE, is_snapshot=True))
        assert here(harness) == wanted(image)


async def test_changes_during_activation_are_applied(tmp_path, nursery):
    count = 3 * PARTITIONS_AT_ONCE
    harness = open_harness(tmp_path, NODE)
    publisher = published(harness)
    records = [
        topic("t", 1),
        *(partition(1, i, [NODE]) for i in range(count)),
        topic("u", 2),
        partition(2, 0, [NODE]),
    ]
    image = replay(records).apply(SOMEWHERE)
    publisher.publish(replay(records), image, Manifest(SOMEWHERE))
    assert here(harness) == {}
    nursery.start_soon(publisher.activate)
    await trio.lowlevel.checkpoint()
    changes = [change(1, i, leader=NODE) for i in range(0, count, 7)]
    changes += [RemoveTopicRecord(topic_id=uid(2)), topic("u", 3), partition(3, 1, [NODE])]
    delta = replay(changes, image)
    image = delta.apply(SOMEWHERE)
    publisher.publish(delta, image, Manifest(SOMEWHERE))
    await trio.testing.wait_all_tasks_blocked()
    assert here(harness) == wanted(image)


async def test_only_replicas_after_start_image_are_new(tmp_path, nursery):
    """P20: an older replica does not count as new when a change of it is published while it waits for its turn."""
    count = PARTITIONS_AT_ONCE + 2
    harness = open_harness(tmp_path, NODE)
    publisher = published(harness)
    elsewhere = [12, 13]
    records = [
        topic("t", 1),
        *(partition(1, i, [NODE]) for i in range(count)),
        partition(1, count, elsewhere),
    ]
    image = replay(records).apply(SOMEWHERE)
    publisher.publish(replay(records), image, Manifest(SOMEWHERE))
    nursery.start_soon(publisher.activate)
    while len(list(harness.partitions)) < count - 1:  # all except the last
        await trio.lowlevel.checkpoint()
    moved = change(1, count, replicas=[NODE, 13], isr=elsewhere, leader=13, directories=[uid(1), uid(2)])  # fmt: skip
    changes = [change(1, count - 1, leader=NODE), moved, topic("u", 2), partition(2, 0, [NODE])]
    delta = replay(changes, image)
    image = delta.apply(SOMEWHERE)
    publisher.publish(delta, image, Manifest(SOMEWHERE))
    await trio.testing.wait_all_tasks_blocked()
    delta = replay([RemoveTopicRecord(topic_id=uid(2)), topic("u", 3), partition(3, 0, [NODE])], image)  # fmt: skip
    publisher.publish(delta, delta.apply(SOMEWHERE), Manifest(SOMEWHERE))
    standings = {
        (partition.topic, partition.index): partition.standing for partition in harness.partitions
    }
    assert len(standings) == count + 2
    new = {key for key, standing in standings.items() if standing is Standing.NEW}
    assert new == {("t", count), ("u", 0)}


def make_directories(harness, name, number, count):
    for index in range(count):
        harness.directory.create_log(
            TopicPartition(name, index), uid(number), harness.settings.of(name).log
        )


async def test_strays_are_moved_aside_in_turns(tmp_path, nursery):
    harness = open_harness(tmp_path, NODE)
    make_directories(harness, "t", 1, 10)
    publisher = published(harness)
    nursery.start_soon(publisher.activate)
    for _ in range(5):
        await trio.lowlevel.checkpoint()
    left = harness.directory.partitions()
    assert 0 < len(left) < 10
    records = [topic("t", 1), *(partition(1, i, [NODE]) for i in range(10))]
    publisher.publish(replay(records), replay(records).apply(SOMEWHERE), Manifest(SOMEWHERE))
    await trio.testing.wait_all_tasks_blocked()
    assert harness.directory.partitions() == left


async def test_topic_deleted_during_activation_leaves_no_directory(tmp_path, nursery):
    count = 2 * PARTITIONS_AT_ONCE
    harness = open_harness(tmp_path, NODE)
    make_directories(harness, "u", 2, 3)
    publisher = published(harness)
    records = [topic("t", 1), *(partition(1, i, [NODE]) for i in range(count))]
    records += [topic("u", 2), *(partition(2, i, [NODE]) for i in range(3))]
    image = replay(records).apply(SOMEWHERE)
    publisher.publish(replay(records), image, Manifest(SOMEWHERE))
    nursery.start_soon(publisher.activate)
    await trio.lowlevel.checkpoint()
    delta = replay([RemoveTopicRecord(topic_id=uid(2))], image)
    publisher.publish(delta, delta.apply(SOMEWHERE), Manifest(SOMEWHERE))
    await trio.testing.wait_all_tasks_blocked()
    assert harness.directory.partitions() == set()


async def test_large_change_is_applied_in_turns(tmp_path, nursery):
    count = 3 * PARTITIONS_AT_ONCE
    harness = open_harness(tmp_path, NODE)
    publisher = published(harness)
    await publisher.activate()
    nursery.start_soon(publisher.run)
    records = [topic("t", 1), *(partition(1, i, [NODE, 12]) for i in range(count))]
    image = replay(records).apply(SOMEWHERE)
    publisher.publish(replay(records), image, Manifest(SOMEWHERE))
    assert harness.metadata.image is image
    assert here(harness) == {}
    assert harness.metadata.applied_offset < SOMEWHERE.offset
    later = replay([change(1, 0, leader=12, isr=[12])], image)
    image = later.apply(SOMEWHERE._replace(offset=SOMEWHERE.offset + 1))
    publisher.publish(later, image, Manifest(image.provenance))
    assert here(harness) == {("t", 0): image.topics.by_name["t"].partitions[0]}
    assert harness.metadata.applied_offset < SOMEWHERE.offset
    await trio.testing.wait_all_tasks_blocked()
    assert here(harness) == wanted(image)
    assert harness.metadata.applied_offset == image.provenance.offset


async def test_deletion_during_application_prevents_creation(tmp_path, nursery):
    count = PARTITIONS_AT_ONCE + 1
    harness = open_harness(tmp_path, NODE)
    publisher = published(harness)
    await publisher.activate()
    records = [topic("t", 1), *(partition(1, i, [NODE]) for i in range(count))]
    image = replay(records).apply(SOMEWHERE)
    publisher.publish(replay(records), image, Manifest(SOMEWHERE))
    again = replay(
        [RemoveTopicRecord(topic_id=uid(1)), topic("t", 2), partition(2, 5, [NODE])], image
    )
    image = again.apply(SOMEWHERE)
    publisher.publish(again, image, Manifest(SOMEWHERE))
    nursery.start_soon(publisher.run)
    await trio.testing.wait_all_tasks_blocked()
    assert here(harness) == wanted(image)
    assert len(wanted(image)) == 1


async def test_large_topic_is_removed_while_namesake_arrives(tmp_path, nursery):
    count = 3 * PARTITIONS_AT_ONCE
    harness = open_harness(tmp_path, NODE)
    publisher = published(harness)
    await publisher.activate()
    nursery.start_soon(publisher.run)
    records = [topic("t", 1), *(partition(1, i, [NODE]) for i in range(count))]
    image = replay(records).apply(SOMEWHERE)
    publisher.publish(replay(records), image, Manifest(SOMEWHERE))
    await trio.testing.wait_all_tasks_blocked()
    gone = replay([RemoveTopicRecord(topic_id=uid(1))], image)
    image = gone.apply(SOMEWHERE)
    publisher.publish(gone, image, Manifest(SOMEWHERE))
    assert len(here(harness)) == count, "none of it in the step that publishes"
    again = replay([topic("t", 2), partition(2, 5, [NODE]), partition(2, 900, [NODE])], image)
    image = again.apply(SOMEWHERE._replace(offset=SOMEWHERE.offset + 1))
    publisher.publish(again, image, Manifest(image.provenance))
    assert here(harness)["t", 5] is image.topics.by_name["t"].partitions[5]
    await trio.testing.wait_all_tasks_blocked()
    assert here(harness) == wanted(image)
    assert harness.metadata.applied_offset == image.provenance.offset
