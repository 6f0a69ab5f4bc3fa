"""Rows of a loaded log: the state equals that of decoding and replaying each row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.broker.groups.driver import Driver
from trimaran.broker.groups.loaded_rows import LoadedRows
from trimaran.broker.groups.registry import serde_of
from trimaran.node.text.memory import text_bytes
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.records.groups import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_group_key,
    encode_group_value,
)

SERDE = serde_of()
# Names that contain each other, and names whose concatenations could be split in another way.
NAMES = st.sampled_from(["", "g", "gt", "t", "\x00", "\x00\x01t"])
PARTITIONS = st.integers(0, 2) | st.sampled_from([-1, 1 << 31 - 1])


@st.composite
def offsets(draw):
    kind = draw(st.sampled_from([OffsetCommitKey, LegacyOffsetCommitKey]))
    names = {"group": draw(NAMES), "topic": draw(NAMES)}
    key = encode_group_key(kind(**names, partition=draw(PARTITIONS)))
    if draw(st.integers(0, 5)) == 0:
        return key, None
    value = OffsetCommitValue(
        offset=draw(st.integers(0, 9)),
        metadata=draw(NAMES),
        commit_timestamp=1,
        topic_id=draw(st.sampled_from([bytes(16), b"a" * 16])),
    )
    return key, encode_group_value(value, 4)


@st.composite
def groups(draw):
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=draw(st.integers(0, 3)),
        protocol=None,
        leader=None,
        members=[],
    )
    return encode_group_key(GroupMetadataKey(group=draw(NAMES))), encode_group_value(value, 3)


UNKNOWN = st.just((b"\x00\x63\x00\x01g", b"x"))


@given(st.lists(offsets() | groups() | UNKNOWN, max_size=40))
def test_state_equals_that_of_replayed_records(rows):
    quick, plain = Driver().shard, Driver().shard
    loaded = LoadedRows(SERDE, quick)
    numbered = [(offset, key, value) for offset, (key, value) in enumerate(rows)]
    loaded.take(numbered[:7])
    loaded.take(numbered[7:])
    for offset, key, value in numbered:
        if (record := SERDE.decode(key, value)) is not None:
            plain.replay(offset, record)
    assert quick.store.offsets == plain.store.offsets
    assert quick.store.of("classic") == plain.store.of("classic")
    for counted in ("known_bytes", "offset_metadata_bytes"):
        assert getattr(quick.account, counted) == getattr(plain.account, counted)


def test_rows_are_applied_once():
    """A removed offset does not come back with the rows that follow."""

    def row(partition, offset=None):
        key = encode_group_key(OffsetCommitKey(group="g", topic="t", partition=partition))
        value = OffsetCommitValue(offset=offset or 0, metadata="", commit_timestamp=1)
        return key, None if offset is None else encode_group_value(value, 4)

    driver = Driver()
    rows = [row(0, 1), row(1, 1), row(0, 2), row(0), row(1, 3), row(1, 4)]
    LoadedRows(SERDE, driver.shard).take((at, *each) for at, each in enumerate(rows))
    assert [driver.offset(partition=index) for index in (0, 1)] == [None, 4]
    driver.check_account()


def test_metadata_of_loaded_offsets_is_counted():
    """The metadata of a new offset is added; that of a later offset replaces that of the earlier one."""
    key = [
        encode_group_key(OffsetCommitKey(group="g", topic="t", partition=index)) for index in (0, 1)
    ]
    rows = []
    for offset, (index, metadata) in enumerate([(0, "ab"), (1, "cde"), (1, "f"), (0, "")]):
        value = OffsetCommitValue(offset=offset, metadata=metadata, commit_timestamp=1)
        rows.append((offset, key[index], encode_group_value(value, 4)))
    for count in range(1, 5):
        shard = Driver().shard
        LoadedRows(SERDE, shard).take(rows[:count])
        held = [value.metadata for _, value in shard.store.offsets_of("g")]
        assert shard.account.offset_metadata_bytes == sum(map(text_bytes, held))


@pytest.mark.parametrize("damaged", [b"", b"\x00", b"\x00\x04", b"\x00\x63" + bytes(30)])
def test_damaged_value_fails_the_load_anywhere(damaged):
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    good = encode_group_value(OffsetCommitValue(offset=1, metadata="", commit_timestamp=1), 4)
    for before in (0, 1):
        loaded = LoadedRows(SERDE, Driver().shard)
        for offset in range(before):
            loaded.take([(offset, encode_group_key(key), good)])
        with pytest.raises(RemoteProtocolError):
            loaded.take([(before, encode_group_key(key), damaged)])


def test_malformed_key_fails_the_load():
    key = encode_group_key(OffsetCommitKey(group="g", topic="t", partition=0))
    good = encode_group_value(OffsetCommitValue(offset=1, metadata="", commit_timestamp=1), 4)
    loaded = LoadedRows(SERDE, Driver().shard)
    loaded.take([(0, key, good)])
    for wrong in (key[:-1], key + b"\x00", key[:-4], key[:1]):
        with pytest.raises(RemoteProtocolError):
            loaded.take([(1, wrong, good)])
