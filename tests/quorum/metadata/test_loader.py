"""Notifications of publishers, and when they are sent."""

from tests.quorum.metadata.build import features, image_of, partition, topic, uid
from trimaran.quorum.metadata.image import EMPTY
from trimaran.quorum.metadata.loader import MetadataLoader
from trimaran.quorum.metadata.records import image_to_records
from trimaran.quorum.raft.listener import CommittedBatch, LoadedSnapshot
from trimaran.wire.records.transactions import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)


class Told:
    def __init__(self):
        self.seen = []

    def publish(self, delta, image, manifest):
        self.seen.append((delta, image, manifest))

    def names(self):
        return [sorted(image.topics.by_name) for _, image, _ in self.seen]

    def offsets(self):
        return [manifest.provenance.offset for _, _, manifest in self.seen]


class Broken:
    def publish(self, delta, image, manifest):
        raise ValueError("no")


def batch(base_offset, *records, control=False):
    count = 1 if control else len(records)
    return CommittedBatch(base_offset, base_offset + count - 1, 3, 5000, 70, records)


def test_batch_is_published_with_its_provenance():
    told = Told()
    loader = MetadataLoader([told])
    loader.apply_committed(batch(0, control=True))
    loader.apply_committed(batch(1, features(), topic("t", 1)))
    assert told.offsets() == [0, 2]
    delta, image, manifest = told.seen[1]
    assert delta.image is told.seen[0][1]
    assert image is loader.image
    assert manifest.provenance == (2, 3, 5000)
    assert (manifest.is_snapshot, manifest.batch_count, manifest.size_bytes) == (False, 1, 70)


def test_transaction_becomes_visible_at_its_end():
    told = Told()
    loader = MetadataLoader([told])
    loader.apply_committed(batch(0, BeginTransactionRecord(), topic("t", 1)))
    loader.apply_committed(batch(2, partition(1, 0, [1])))
    assert told.seen == []
    assert loader.in_transaction
    loader.apply_committed(batch(3, EndTransactionRecord()))
    assert told.names() == [["t"]]
    assert told.seen[0][2].batch_count == 3
    assert not loader.in_transaction


def test_records_before_transaction_are_published_at_once():
    told = Told()
    loader = MetadataLoader([told])
    loader.apply_committed(batch(0, topic("t", 1), BeginTransactionRecord(), topic("u", 2)))
    assert told.names() == [["t"]]
    assert told.offsets() == [0]


def test_aborted_transaction_is_never_visible():
    told = Told()
    loader = MetadataLoader([told])
    loader.apply_committed(batch(0, BeginTransactionRecord(), topic("t", 1)))
    loader.apply_committed(batch(2, AbortTransactionRecord(reason="failover"), topic("u", 2)))
    assert told.names() == [["u"]]


def test_snapshot_replaces_everything_and_publishes_the_difference():
    told = Told()
    loader = MetadataLoader([told])
    loader.apply_committed(batch(0, topic("old", 1), topic("kept", 2)))
    image = image_of(topic("kept", 2), topic("new", 3))
    loader.load_snapshot(LoadedSnapshot(50, 7, 9000, list(image_to_records(image))))
    delta, after, manifest = told.seen[1]
    assert sorted(after.topics.by_name) == ["kept", "new"]
    assert (list(delta.topics.deleted), delta.topics.created) == ([uid(1)], {uid(3): "new"})
    assert manifest.is_snapshot
    assert manifest.provenance == (49, 7, 9000)


def test_snapshot_at_offset_0_changes_nothing():
    """Kafka 4.4 formats a directory with such a snapshot; its records take effect once they are in the log."""
    records = list(image_to_records(image_of(topic("t", 1))))
    loader = MetadataLoader()
    loader.load_snapshot(LoadedSnapshot(0, 0, 9000, records))
    assert not loader.image.topics.by_name
    loader.load_snapshot(LoadedSnapshot(1, 0, 9000, records))
    assert list(loader.image.topics.by_name) == ["t"]


def test_late_publisher_gets_whole_image():
    loader = MetadataLoader()
    loader.apply_committed(batch(0, topic("t", 1), partition(1, 0, [1])))
    told, another = Told(), Told()
    loader.add_publisher(told, another)
    assert another.seen == told.seen
    delta, image, _ = told.seen[0]
    assert delta.image is EMPTY
    assert delta.topics.created == {uid(1): "t"}
    assert image is loader.image


def test_failing_publisher_does_not_block_others():
    told = Told()
    loader = MetadataLoader([Broken(), told])
    loader.apply_committed(batch(0, topic("t", 1)))
    assert told.names() == [["t"]]
