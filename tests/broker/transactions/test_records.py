"""Every field of a transaction is encoded in its record and decoded again, except those that the format lacks."""

import pytest

from trimaran.broker.transactions.records import TransactionRecord, TransactionRecordSerde
from trimaran.broker.transactions.transaction import Transaction, TransactionState
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.records.transaction_log import TransactionLogValue

ALL_FIELDS = Transaction(
    producer_id=101,
    epoch=2,
    timeout_ms=60_003,
    state=TransactionState.PREPARE_COMMIT,
    partitions=frozenset({TopicPartition("b", 1), TopicPartition("a", 5), TopicPartition("a", 4)}),
    last_epoch=6,
    previous_producer_id=107,
    next_producer_id=108,
    next_epoch=9,
    started_ms=1_700_000_000_010,
    updated_ms=1_700_000_000_011,
    client_version=2,
)
# `last_epoch` is never written.
FLEXIBLE = ALL_FIELDS._replace(last_epoch=-1)
OLD = FLEXIBLE._replace(
    previous_producer_id=-1, next_producer_id=-1, next_epoch=-1, client_version=0
)


@pytest.mark.parametrize(("version", "expected"), [(0, OLD), (1, FLEXIBLE), (2, FLEXIBLE)])
def test_transaction_round_trip_preserves_content(version, expected):
    serde = TransactionRecordSerde(lambda: version)
    written = serde.encode(TransactionRecord("id", ALL_FIELDS), 1)
    assert serde.decode(written.key, written.value) == TransactionRecord("id", expected)


def test_field_names_match_kafka():
    """Records may be written by another program: names and order are those of the schema."""
    written = TransactionRecordSerde(lambda: 1).encode(TransactionRecord("id", ALL_FIELDS), 1)
    value = TransactionLogValue.decode(written.value[2:], 1)
    assert (value.producer_id, value.previous_producer_id, value.next_producer_id) == (
        101,
        107,
        108,
    )
    assert (value.producer_epoch, value.next_producer_epoch) == (2, 9)
    assert (value.transaction_timeout_ms, value.transaction_status) == (60_003, 2)
    assert [
        (transaction_partition.topic, transaction_partition.partition_ids)
        for transaction_partition in value.transaction_partitions
    ] == [
        ("a", [4, 5]),
        ("b", [1]),
    ]
    assert value.transaction_start_timestamp_ms == 1_700_000_000_010
    assert value.transaction_last_update_timestamp_ms == 1_700_000_000_011
    assert value.client_transaction_version == 2


@pytest.mark.parametrize("version", [0, 1])
def test_empty_and_forgotten_transactions_are_encoded(version):
    serde = TransactionRecordSerde(lambda: version)
    empty = ALL_FIELDS._replace(state=TransactionState.EMPTY)
    value = serde.encode(TransactionRecord("id", empty), 1).value
    assert TransactionLogValue.decode(value[2:], version).transaction_partitions is None
    forgotten = serde.encode(TransactionRecord("id", None), 1)
    assert forgotten.value is None
    assert serde.decode(forgotten.key, None) == TransactionRecord("id", None)


def test_record_of_another_type_is_skipped():
    serde = TransactionRecordSerde(lambda: 1)
    written = serde.encode(TransactionRecord("id", ALL_FIELDS), 1234)
    assert written.timestamp_ms == 1234
    assert written.key[:2] == b"\0\0"
    for kind in (b"\0\1", b"\xff\xff"):
        assert serde.decode(kind + written.key[2:], written.value) is None


def test_truncated_or_unknown_record_is_refused():
    serde = TransactionRecordSerde(lambda: 0)
    written = serde.encode(TransactionRecord("id", ALL_FIELDS), 1)
    unknown = TransactionLogValue.decode(written.value[2:], 0)
    unknown.transaction_status = 6
    for key, value in (
        (b"", written.value),
        (b"\0", written.value),
        (b"\0\0", written.value),
        (written.key, b""),
        (written.key, b"\0"),
        (written.key, b"\0\0"),
        (written.key, written.value[:-1]),
        (written.key, b"\0\0" + unknown.encode(0)),
    ):
        with pytest.raises(RemoteProtocolError):
            serde.decode(key, value)
    assert serde.decode(b"\0\1", None) is None
