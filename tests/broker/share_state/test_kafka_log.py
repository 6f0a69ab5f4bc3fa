"""A log of `__share_group_state` that Apache Kafka 4.4.0 has written gives the states that Kafka returned.

`testdata/kafka_4.4.log` is the segment after 250 random requests, with a snapshot after three updates. Kafka also loads
the snapshots that our shard writes from it.
"""

from pathlib import Path

import pytest

from trimaran.broker.coordination.loader import CoordinatorLoader
from trimaran.broker.share_state.limits import ShareLimits
from trimaran.broker.share_state.records import ShareRecordSerde
from trimaran.broker.share_state.shard import ShareCoordinatorShard
from trimaran.broker.share_state.states import ShareState, ShareSummary, StateBatch
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.columns import decode_columns
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import SharePartitionKey

LOG = (Path(__file__).parent / "testdata" / "kafka_4.4.log").read_bytes()
TOPIC_ID = bytes.fromhex("7e4d48fca11a461788757d54b6d4bc40")
STATES = {
    ("g", 0): ShareState(ShareSummary(1, 0, 8, 1), (StateBatch(9, 14, 2, 3),)),
    ("g", 1): ShareState(
        ShareSummary(1, 1, 12, None),
        (StateBatch(12, 12, 0, 2), StateBatch(13, 15, 2, 1), StateBatch(17, 23, 0, 3)),
    ),
    ("h", 0): ShareState(
        ShareSummary(1, 2, 12, 1),
        (
            *(StateBatch(12, 12, 0, 3), StateBatch(13, 13, 0, 0), StateBatch(14, 16, 0, 1)),
            *(StateBatch(17, 18, 4, 2), StateBatch(19, 24, 4, 3)),
        ),
    ),
    ("h", 1): ShareState(ShareSummary(1, 0, 5, 0), ()),
    ("h", 2): ShareState(
        ShareSummary(1, 3, 8, 1),
        (StateBatch(8, 8, 4, 0), StateBatch(15, 15, 2, 3), StateBatch(17, 17, 2, 2)),
    ),
}


@pytest.fixture
def shard():
    loader = CoordinatorLoader(ShareRecordSerde(), compacted=False)
    loader.feed(LOG)
    shard = ShareCoordinatorShard(ShareLimits(), lambda _topic_id: 3)
    loader.replay_into(shard)
    shard.finish_load()
    return shard


def test_loaded_states_equal_those_of_kafka(shard):
    found = {}
    for group_id in "gh":
        for index in range(3):
            key = SharePartitionKey(group_id, TOPIC_ID, index)
            try:
                found[group_id, index] = shard.read(key, 9, None).response
            except KafkaError as error:
                assert error.code is ErrorCode.INVALID_REQUEST  # noqa: PT017
    assert found == STATES


def test_loaded_records_are_encoded_unchanged():
    serde = ShareRecordSerde()
    columns = decode_columns(list(iter_batches(LOG)))
    for key, value in zip(columns.keys(), columns.values(), strict=True):
        encoded = serde.encode(serde.decode(key, value), 0)
        assert (encoded.key, encoded.value) == (key, value)
