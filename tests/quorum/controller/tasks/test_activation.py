"""R14: a transaction of records that its leader did not finish is ignored; the next leader starts it again
(KIP-868).
"""

import pytest

from tests.quorum.controller.states import eligible_leaders
from tests.quorum.metadata.build import config, features, image_of, topic
from trimaran.quorum.controller.tasks.activation import activation_records
from trimaran.quorum.metadata.features import bootstrap_records
from trimaran.quorum.metadata.image import EMPTY
from trimaran.quorum.metadata.loader import MetadataLoader
from trimaran.quorum.raft.listener import CommittedBatch
from trimaran.wire.records.features import FeatureLevelRecord
from trimaran.wire.records.transactions import AbortTransactionRecord, BeginTransactionRecord


class Seen:
    """Published states: metadata.version and topics of each image."""

    def __init__(self):
        self.images = []

    def publish(self, _delta, image, _manifest):
        self.images.append((image.features.metadata_version, sorted(image.topics.by_name)))


def commit(loader, offset, epoch, *records):
    last = offset + len(records) - 1
    loader.apply_committed(CommittedBatch(offset, last, epoch, 1000, 100, list(records)))
    return last + 1


@pytest.mark.parametrize("written", [1, 2])
def test_unfinished_bootstrap_is_repeated_by_next_leader(written):
    seen = Seen()
    loader = MetadataLoader([seen])
    begun = [BeginTransactionRecord(name="Bootstrap records"), *bootstrap_records()][:written]
    end = commit(loader, 0, 1, *begun)
    assert loader.in_transaction
    assert loader.image.features.metadata_version == 0
    again = activation_records(
        loader.image, bootstrap_records(), in_transaction=loader.in_transaction
    )
    assert isinstance(again[0], AbortTransactionRecord)
    commit(loader, end, 2, *again)
    assert not loader.in_transaction
    assert loader.image.features.metadata_version == 33
    # A part of it was never published.
    assert all(version in (0, 33) for version, _ in seen.images)


def test_later_unfinished_transaction_is_aborted():
    seen = Seen()
    loader = MetadataLoader([seen])
    end = commit(loader, 0, 1, features())
    end = commit(loader, end, 1, BeginTransactionRecord(name="x"), topic("lost", 1))
    records = activation_records(loader.image, bootstrap_records(), in_transaction=True)
    assert [type(record) for record in records] == [AbortTransactionRecord]
    end = commit(loader, end, 2, *records)
    commit(loader, end, 2, topic("kept", 2))
    assert sorted(loader.image.topics.by_name) == ["kept"]
    assert all("lost" not in topics for _, topics in seen.images)
    assert loader.image.same_content(image_of(features(), topic("kept", 2)))


def first_records(*bootstrap, **more):
    """Returns the first records of an empty log, without the transaction's markers."""
    return activation_records(EMPTY, bootstrap, in_transaction=False, **more)[1:-1]


def test_configured_minimum_becomes_cluster_wide_with_elr():
    """KIP-966: afterwards it is not set for a single node."""
    minimum = config("min.insync.replicas", "2", (4, ""))
    first = [features(), eligible_leaders()]
    assert first_records(*first, min_insync_replicas=2) == [*first, minimum]
    assert first_records(features(), min_insync_replicas=2) == [features()]


@pytest.mark.parametrize(
    ("name", "level", "stays"),
    [
        ("metadata.version", 7, True),
        ("metadata.version", 6, False),
        ("metadata.version", 34, False),
        ("group.version", 1, True),
        ("group.version", 2, False),
        ("some.version", 1, False),
    ],
)
def test_unserved_bootstrap_features_are_dropped_rest_kept(name, level, stays):
    """Apache Kafka's tool writes more features than we support; SCRAM credentials and configs are in the same file."""
    bootstrap = [FeatureLevelRecord(name=name, feature_level=level), config("a", "b")]
    written = activation_records(EMPTY, bootstrap, in_transaction=False)
    assert config("a", "b") in written
    assert (bootstrap[0] in written) is stays
