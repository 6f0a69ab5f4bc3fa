"""Loading what Apache Kafka wrote, and what we write being the same bytes."""

from __future__ import annotations

import pytest

from broker.groups.group import GroupState
from broker.groups.loaded import restore_group
from broker.groups.loader import StoreLoader
from broker.groups.records import GroupRecord, decode_value
from log.batches.batch import iter_batches
from log.batches.records import NewRecord, build_batch, decode_records
from tests.broker.groups.driver import Driver
from tests.broker.groups.kafka_logs import PAIR, SIMPLE, TRANSACTIONAL
from wire.errors import ErrorCode, RemoteProtocolError
from wire.messages.control import ControlType, encode_control_key
from wire.records.groups import OffsetCommitKey, OffsetCommitValue, decode_group_key


def load(*pieces):
    loader = StoreLoader()
    for piece in pieces:
        loader.feed(piece)
    return loader.finish()


def batches(data):
    return [bytes(batch.buffer) for batch in iter_batches(data)]


def test_a_group_of_kafka_with_members():
    store = load(*batches(PAIR)[:3])
    group = restore_group("pair", store.groups["pair"])
    assert group.state is GroupState.STABLE
    assert group.generation == 1
    assert (group.protocol_type, group.protocol_name) == ("consumer", "range")
    assert sorted(m.client_id for m in group.members.values()) == ["alice", "bob"]
    assert group.leader in group.members
    assert group.subscribed_topics == {"orders"}
    assert all(m.session_timeout_ms == 10_000 for m in group.members.values())
    assert all(m.assignment for m in group.members.values())
    assert {p: v.offset for p, v in store.offsets["pair"]["orders"].items()} == dict.fromkeys(
        range(4), 10
    )


def test_a_group_of_kafka_whose_members_have_died():
    store = load(PAIR)
    group = restore_group("pair", store.groups["pair"])
    assert (group.state, group.generation, group.members) == (GroupState.EMPTY, 2, {})
    assert group.protocol_type == "consumer"
    assert group.state_timestamp_ms > 0


def test_offsets_of_kafka_without_a_group():
    store = load(SIMPLE)
    assert store.groups == {}
    assert {p: v.offset for p, v in store.offsets["simple"]["orders"].items()} == {0: 7, 1: 6}
    assert all(
        len(v.topic_id) == 16 and any(v.topic_id)
        for v in store.offsets["simple"]["orders"].values()
    )


def test_offsets_of_transactions_count_when_they_are_committed():
    assert load(TRANSACTIONAL).offsets["txn"]["orders"][2].offset == 3
    assert load(*batches(TRANSACTIONAL)[:1]).offsets == {}


def test_a_plain_commit_after_a_transactional_one_stands():
    def commit(offset):
        key = OffsetCommitKey(group="g", topic="t", partition=0)
        value = OffsetCommitValue(offset=offset, metadata="", commit_timestamp=0)
        return GroupRecord(key, value).encode(0)

    marker = NewRecord(encode_control_key(ControlType.COMMIT), bytes(6), 0)
    producer = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    log = [
        build_batch([commit(1)], base_offset=0, base_sequence=0, **producer),
        build_batch([commit(2)], base_offset=1),
        build_batch([marker], base_offset=2, is_control=True, **producer),
    ]
    assert load(*log).offsets["g"]["t"][0].offset == 2


@pytest.mark.parametrize("data", [PAIR, SIMPLE], ids=["pair", "simple"])
def test_our_records_are_kafkas_bytes(data):
    for batch in iter_batches(data):
        for record in decode_records(batch):
            key = decode_group_key(record.key)
            ours = GroupRecord(key, decode_value(key, record.value)).encode(record.timestamp_ms)
            assert (ours.key, ours.value) == (record.key, record.value)


def test_pieces_may_be_cut_anywhere_between_batches():
    whole = load(PAIR)
    assert load(*batches(PAIR)).groups == whole.groups
    assert StoreLoader().feed(b"") is None
    loader = StoreLoader()
    assert loader.feed(PAIR) == 7
    assert loader.record_count == 7


def test_malformed_values_fail_the_load():
    key = GroupRecord(OffsetCommitKey(group="g", topic="t", partition=0), None).encode(0).key
    with pytest.raises(RemoteProtocolError):
        load(build_batch([NewRecord(key, b"\0\4cut", 0)]))
    with pytest.raises(RemoteProtocolError):
        load(build_batch([NewRecord(key, b"\0\x63" + bytes(40), 0)]))


def test_unknown_types_of_records_are_skipped():
    assert load(build_batch([NewRecord(b"\0\3\0\1g", b"\0\0", 0)])).groups == {}


def test_what_a_shard_writes_it_can_load():
    driver = Driver()
    driver.join("1", version=3)
    driver.advance(3)
    driver.sync("2", "c-1", 1, {"c-1": b"mine"})
    assert driver.commit_offset(5, member_id="c-1", generation=1) is ErrorCode.NONE
    driver.commit_offset(6, group="other", topic="gone")
    driver.submit(driver.core.delete_groups(["other"]))
    store = load(build_batch([record.encode(0) for record in driver.log]))
    assert store.groups == driver.core.store.groups
    assert store.offsets == driver.core.store.offsets == {"g": store.offsets["g"]}
