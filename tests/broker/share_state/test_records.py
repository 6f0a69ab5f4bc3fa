"""Every field of a state is encoded in its records and decoded again."""

import pytest

from tests.broker.share_state.driver import ACKNOWLEDGED, ARCHIVED, AVAILABLE, KEY, TOPIC_ID
from trimaran.broker.share_state.records import (
    ShareRecordSerde,
    SnapshotRecord,
    StoredState,
    UpdateRecord,
)
from trimaran.broker.share_state.states import StateBatch
from trimaran.wire.errors import RemoteProtocolError

BATCHES = (StateBatch(10, 11, AVAILABLE, 2), StateBatch(12, 12, ARCHIVED, 3))
STATE = StoredState(4, 5, 6, 10, 7, BATCHES, 1_700_000_000_008, 1_700_000_000_009)
RECORDS = [
    SnapshotRecord(KEY, STATE),
    SnapshotRecord(KEY, STATE._replace(start_offset=-1, delivery_complete_count=-1, batches=())),
    SnapshotRecord(KEY, None),
    UpdateRecord(KEY, 4, 6, 10, 7, BATCHES),
    UpdateRecord(KEY, 4, -1, -1, -1, ()),
]

# As kafka-share-coordinator 4.4.0 writes them: `ShareSnapshotKey` and `ShareUpdateValue`.
UPDATE_KEY = bytes.fromhex("00010001") + b"g" + TOPIC_ID + bytes.fromhex("00000001")
UPDATE_VALUE = bytes.fromhex(
    "0000"  # version
    "00000004" "00000006" "000000000000000a"  # snapshot epoch, leader epoch, start offset
    "02" "000000000000000c" "000000000000000c" "02" "0003" "00"  # a batch
    "01" "00" "04" "00000007"  # the tagged delivery-complete count
)  # fmt: skip


@pytest.mark.parametrize("record", RECORDS)
def test_record_round_trips(record):
    serde = ShareRecordSerde()
    written = serde.encode(record, 1)
    assert serde.decode(written.key, written.value) == record


def test_update_is_encoded_as_by_kafka():
    record = UpdateRecord(KEY, 4, 6, 10, 7, (StateBatch(12, 12, ACKNOWLEDGED, 3),))
    written = ShareRecordSerde().encode(record, 1)
    assert (written.key, written.value) == (UPDATE_KEY, UPDATE_VALUE)


def test_a_record_of_an_unknown_type_is_skipped():
    assert ShareRecordSerde().decode(b"\x00\x02" + UPDATE_KEY[2:], UPDATE_VALUE) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (UPDATE_KEY[:1], UPDATE_VALUE),
        (UPDATE_KEY[:-1], UPDATE_VALUE),
        (UPDATE_KEY, UPDATE_VALUE[:-1]),
        (UPDATE_KEY, None),
        (UPDATE_KEY, UPDATE_VALUE.replace(b"\x0c\x02\x00\x03", b"\x0c\x05\x00\x03")),
    ],
    ids=["short type", "short key", "short value", "no value", "unknown state"],
)
def test_a_malformed_record_fails_the_load(key, value):
    with pytest.raises(RemoteProtocolError):
        ShareRecordSerde().decode(key, value)
