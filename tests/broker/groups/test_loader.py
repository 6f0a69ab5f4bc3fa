"""Loads logs that Apache Kafka wrote, and writes the same bytes."""

from __future__ import annotations

import pytest

from tests.broker.groups.driver import Driver
from tests.broker.groups.kafka_logs import PAIR, SIMPLE, TRANSACTIONAL
from trimaran.broker.coordination.loader import CoordinatorLoader
from trimaran.broker.groups.classic.group import GroupState, restore_group
from trimaran.broker.groups.loaded_rows import LoadedRows
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.registry import serde_of
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch, decode_records
from trimaran.log.codecs.compression import Compression
from trimaran.wire.errors import ErrorCode, RemoteProtocolError
from trimaran.wire.messages.control import ControlType, encode_control_key
from trimaran.wire.records.groups import (
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_group_key,
)


def load(*pieces):
    """Loads pieces; asserts the same result for one piece and for single records."""
    store, whole = _loaded(pieces), _loaded([b"".join(pieces)])
    plain = _loaded(pieces, lambda shard: None)
    assert (store.offsets, store.of("classic")) == (whole.offsets, whole.of("classic"))
    assert (store.offsets, store.of("classic")) == (plain.offsets, plain.of("classic"))
    return store


def quick(shard):
    return LoadedRows(serde_of(), shard).take


def _loaded(pieces, taking_rows=quick):
    loader, shard = CoordinatorLoader(serde_of()), Driver().shard
    for piece in pieces:
        loader.feed(piece)
    loader.replay_into(shard, taking_rows(shard))
    return shard.store


def batches(data):
    return [bytes(batch.buffer) for batch in iter_batches(data)]


def test_kafkas_group_with_members_is_loaded():
    store = load(*batches(PAIR)[:3])
    group = restore_group("pair", store.of("classic")["pair"])
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


def test_kafka_group_with_dead_members_is_loaded():
    store = load(PAIR)
    group = restore_group("pair", store.of("classic")["pair"])
    assert (group.state, group.generation, group.members) == (GroupState.EMPTY, 2, {})
    assert group.protocol_type == "consumer"
    assert group.state_timestamp_ms > 0


def test_offsets_of_kafka_without_a_group():
    store = load(SIMPLE)
    assert store.of("classic") == {}
    assert {p: v.offset for p, v in store.offsets["simple"]["orders"].items()} == {0: 7, 1: 6}
    assert all(
        len(v.topic_id) == 16 and any(v.topic_id)
        for v in store.offsets["simple"]["orders"].values()
    )


def test_offsets_of_transactions_count_when_they_are_committed():
    assert load(TRANSACTIONAL).offsets["txn"]["orders"][2].offset == 3
    assert load(*batches(TRANSACTIONAL)[:1]).offsets == {}


def commit(offset):
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    value = OffsetCommitValue(offset=offset, metadata="", commit_timestamp=0)
    return serde_of().encode(GroupRecord(key, value), 0)


def in_transaction(record, base_offset, *, producer=7, is_control=False):
    return build_batch(
        [record],
        base_offset=base_offset,
        base_sequence=-1 if is_control else 0,
        producer_id=producer,
        producer_epoch=0,
        is_transactional=True,
        is_control=is_control,
    )


def marker(kind, base_offset, *, producer=7):
    record = NewRecord(encode_control_key(kind), bytes(6), 0)
    return in_transaction(record, base_offset, producer=producer, is_control=True)


TOMBSTONE = NewRecord(commit(0).key, None, 0)


@pytest.mark.parametrize("last", [1, 2, 3])
def test_compressed_batches_among_plain_ones_keep_their_places(last):
    log = [
        build_batch([commit(1)], base_offset=0),
        build_batch([commit(2)], base_offset=1, compression=Compression.GZIP),
        build_batch([commit(3)], base_offset=2),
    ]
    assert load(*log[:last]).offsets["g"]["t"][0].offset == last


def test_plain_commit_after_transactional_one_wins():
    log = [
        in_transaction(commit(1), 0),
        build_batch([commit(2)], base_offset=1),
        marker(ControlType.COMMIT, 2),
    ]
    assert load(*log).offsets["g"]["t"][0].offset == 2


def test_transactional_commit_overrides_older_plain_one():
    log = [
        build_batch([commit(1)], base_offset=0),
        in_transaction(commit(2), 1),
        marker(ControlType.COMMIT, 2),
    ]
    assert load(*log).offsets["g"]["t"][0].offset == 2


def test_offset_deleted_after_transactional_commit_is_gone():
    log = [
        in_transaction(commit(2), 0),
        build_batch([TOMBSTONE], base_offset=1),
        marker(ControlType.COMMIT, 2),
    ]
    assert load(*log).offsets == {}


def test_marker_ends_only_its_producers_transaction():
    log = [
        build_batch([commit(1)], base_offset=0),
        in_transaction(commit(2), 1, producer=7),
        marker(ControlType.COMMIT, 2, producer=8),
    ]
    assert load(*log).offsets["g"]["t"][0].offset == 1
    assert load(*log, marker(ControlType.COMMIT, 3)).offsets["g"]["t"][0].offset == 2


def test_aborted_offsets_do_not_reappear_later():
    log = [
        in_transaction(commit(2), 0),
        marker(ControlType.ABORT, 1),
        marker(ControlType.COMMIT, 2),
    ]
    assert load(*log).offsets == {}


def test_other_control_records_end_no_transaction():
    leader_change = NewRecord(encode_control_key(ControlType.LEADER_CHANGE), bytes(6), 0)
    log = [
        in_transaction(commit(2), 0),
        in_transaction(leader_change, 1, is_control=True),
        marker(ControlType.COMMIT, 2),
    ]
    assert load(*log).offsets["g"]["t"][0].offset == 2


def test_only_last_record_of_key_is_decoded():
    cut = NewRecord(commit(0).key, b"\0\4cut", 0)
    assert load(build_batch([cut, commit(1), commit(2)])).offsets["g"]["t"][0].offset == 2
    assert load(build_batch([cut, TOMBSTONE])).offsets == {}
    assert load(build_batch([commit(1)]), build_batch([TOMBSTONE], base_offset=1)).offsets == {}


def test_records_without_a_key_are_skipped():
    assert load(build_batch([NewRecord(None, b"x", 0), commit(1)])).offsets.keys() == {"g"}


def stored_group(**fields):
    member = {
        "member_id": "m-1",
        "group_instance_id": None,
        "client_id": "c",
        "client_host": "/h",
        "rebalance_timeout": 60_000,
        "session_timeout": 10_000,
        "subscription": b"",
        "assignment": b"",
    }
    values = {"protocol_type": "consumer", "generation": 3, "protocol": "range", "leader": "m-1"}
    values |= {"current_state_timestamp": 5, **fields}
    members = [MemberMetadata(**member | changes) for changes in values.pop("members", [{}])]
    return GroupMetadataValue(members=members, **values)


def test_loaded_group_is_stable_or_empty():
    assert restore_group("g", stored_group()).state is GroupState.STABLE
    assert restore_group("g", stored_group(members=[])).state is GroupState.EMPTY


def test_missing_rebalance_timeout_becomes_session_timeout():
    group = restore_group("g", stored_group(members=[{"rebalance_timeout": -1}]))
    assert group.members["m-1"].rebalance_timeout_ms == 10_000


def test_leader_outside_group_does_not_lead():
    members = [{"member_id": "m-1"}, {"member_id": "m-2"}]
    assert restore_group("g", stored_group(members=members, leader="m-2")).leader == "m-2"
    assert restore_group("g", stored_group(members=members, leader="gone")).leader == "m-1"
    assert restore_group("g", stored_group(members=[], leader=None)).leader is None


def test_static_members_keep_their_place():
    group = restore_group("g", stored_group(members=[{"group_instance_id": "i"}]))
    assert group.instances == {"i": "m-1"}


@pytest.mark.parametrize("data", [PAIR, SIMPLE], ids=["pair", "simple"])
def test_our_records_are_kafkas_bytes(data):
    for batch in iter_batches(data):
        for record in decode_records(batch):
            read = serde_of().decode(record.key, record.value)
            ours = serde_of().encode(read, record.timestamp_ms)
            assert (ours.key, ours.value) == (record.key, record.value)


def test_pieces_may_be_cut_anywhere_between_batches():
    whole = load(PAIR)
    assert load(*batches(PAIR)).of("classic") == whole.of("classic")
    assert CoordinatorLoader(serde_of()).feed(b"") is None
    loader = CoordinatorLoader(serde_of())
    assert loader.feed(PAIR) == 7
    assert loader.record_count == 7


def test_malformed_values_fail_the_load():
    key = encode_group_key(OffsetCommitKey(group="g", topic="t", partition=0))
    with pytest.raises(RemoteProtocolError):
        load(build_batch([NewRecord(key, b"\0\4cut", 0)]))
    with pytest.raises(RemoteProtocolError):
        load(build_batch([NewRecord(key, b"\0\x63" + bytes(40), 0)]))


def test_unknown_types_of_records_are_skipped():
    later = NewRecord(b"\3\xe9\0\1g", b"\0\0", 0)
    assert not load(build_batch([later])).knows("g")


def test_written_state_loads_again():
    driver = Driver()
    driver.join("1", version=3)
    driver.advance(3)
    driver.sync("2", "c-1", 1, {"c-1": b"mine"})
    assert driver.commit_offset(5, member_id="c-1", generation=1) is ErrorCode.NONE
    driver.commit_offset(6, group="other", topic="gone")
    driver.submit(driver.shard.delete_groups(["other"]))
    store = load(build_batch([serde_of().encode(record, 0) for record in driver.log]))
    assert store.of("classic") == driver.shard.store.of("classic")
    assert store.offsets == driver.shard.store.offsets == {"g": store.offsets["g"]}
