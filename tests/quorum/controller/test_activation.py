"""R14: a transaction of records that its leader did not finish is nothing to anybody; the next leader begins it anew
(KIP-868).
"""

import pytest

from quorum.controller.activation import activation_records
from quorum.metadata.features import bootstrap_records
from quorum.metadata.loader import MetadataLoader
from quorum.raft.listener import CommittedBatch
from tests.quorum.metadata.build import features, image_of, topic
from wire.records.transactions import AbortTransactionRecord, BeginTransactionRecord


class Seen:
    """What publishers were told: metadata.version and topics of each image."""

    def __init__(self):
        self.images = []

    def publish(self, _delta, image, _manifest):
        self.images.append((image.features.metadata_version, sorted(image.topics.by_name)))


def commit(loader, offset, epoch, *records):
    last = offset + len(records) - 1
    loader.apply_committed(CommittedBatch(offset, last, epoch, 1000, 100, list(records)))
    return last + 1


@pytest.mark.parametrize("written", [1, 2])
def test_bootstrap_records_that_a_leader_did_not_finish(written):
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
    assert loader.image.features.metadata_version == 30
    # Nobody saw a part of it.
    assert all(version in (0, 30) for version, _ in seen.images)


def test_a_later_transaction_that_a_leader_did_not_finish():
    seen = Seen()
    loader = MetadataLoader([seen])
    end = commit(loader, 0, 1, features())
    end = commit(loader, end, 1, BeginTransactionRecord(name="x"), topic("lost", 1))
    records = activation_records(loader.image, bootstrap_records(), in_transaction=True)
    assert [type(one) for one in records] == [AbortTransactionRecord]
    end = commit(loader, end, 2, *records)
    commit(loader, end, 2, topic("kept", 2))
    assert sorted(loader.image.topics.by_name) == ["kept"]
    assert all("lost" not in topics for _, topics in seen.images)
    assert loader.image.same_content(image_of(features(), topic("kept", 2)))
