"""The files beside the metadata log: vote file, snapshots; and the logs as the core sees them."""

from __future__ import annotations

import random
from pathlib import Path

import crc32c
import pytest

from tests.simulation.storage import Entry, SimLog
from trimaran.log.batches.batch import CRC, CRC_POSITION, CRC_START, HEADER, iter_batches
from trimaran.log.batches.control_records import build_control_batch
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.config import LogConfig
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.meta_properties import MetaProperties
from trimaran.quorum.raft.ready import ControlBatch, LeaderAppend, LeaderChange, Proposal
from trimaran.quorum.raft.types import ElectionState, OffsetAndEpoch, Peer, ReplicaKey
from trimaran.quorum.raft.voters import QuorumHistory, VoterSet
from trimaran.quorum.raft_log.damage import LogDamaged
from trimaran.quorum.raft_log.memory_log import MemoryLog
from trimaran.quorum.raft_log.metadata_log import MetadataLog, open_metadata_log, validate_fetched
from trimaran.quorum.raft_log.snapshot_files import SnapshotFiles, snapshot_name
from trimaran.quorum.raft_log.snapshot_format import (
    SnapshotDamaged,
    check_snapshot,
    decode_snapshot,
    encode_snapshot,
)
from trimaran.quorum.raft_log.voter_records import voters_record
from trimaran.quorum.replica.quorum_state_file import (
    FILE_NAME,
    QuorumStateError,
    decode_election,
    encode_election,
    load_election,
    save_election,
)
from trimaran.wire.errors import KafkaError, RemoteProtocolError
from trimaran.wire.messages.control import ControlType, encode_control_key
from trimaran.wire.records.metadata import encode_metadata_record
from trimaran.wire.records.topics import TopicRecord

# --- quorum-state

STATIC = QuorumHistory(VoterSet.static([Peer(2), Peer(1)]))


@pytest.mark.parametrize(
    "election",
    [
        ElectionState(),
        ElectionState(3, 2),
        ElectionState(4, -1, ReplicaKey(1)),
        ElectionState(4, 2, ReplicaKey(1)),
    ],
)
def test_saved_vote_file_is_loaded(tmp_path: Path, election: ElectionState) -> None:
    save_election(tmp_path, election, STATIC)
    assert load_election(tmp_path) == election


def test_vote_file_has_kafkas_format(tmp_path: Path) -> None:
    save_election(tmp_path, ElectionState(2, 1), STATIC)
    assert (tmp_path / FILE_NAME).read_text().splitlines()[0] == (
        '{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    )


def test_vote_file_version_1_has_directory(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(
        '{"leaderId":-1,"leaderEpoch":2,"votedId":1,"votedDirectoryId":"J8aAPcfLQt2bqs1JT_rMgQ","data_version":1}'
    )
    found = load_election(tmp_path)
    assert found.voted is not None
    assert found.voted.id == 1
    assert found.voted.directory_id != bytes(16)
    dynamic = QuorumHistory()
    dynamic.set_kraft_version(-1, 1)
    dynamic.set_voters(-1, VoterSet.static([Peer(1)]))
    before = (tmp_path / FILE_NAME).read_text()
    save_election(tmp_path, found, dynamic)
    assert (tmp_path / FILE_NAME).read_text().splitlines()[0] == before


def test_flipped_bit_never_changes_the_vote() -> None:
    election = ElectionState(4, -1, ReplicaKey(1))
    good = encode_election(election, STATIC)
    for bit in range(8 * len(good)):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        try:
            assert decode_election(bytes(bad)) == election
        except (ValueError, KeyError, TypeError):
            continue


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"data_version":7}', '{"leaderEpoch":-1,"leaderId":1,"votedId":1,"data_version":0}',
     '{"leaderEpoch":"1","leaderId":1,"votedId":1,"data_version":0}', "\x00" * 40],
)  # fmt: skip
def test_damaged_vote_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(QuorumStateError, match="damaged"):
        load_election(tmp_path)


# --- snapshots

ID = OffsetAndEpoch(7, 2)


def snapshot(count: int) -> bytes:
    values = [
        encode_metadata_record(TopicRecord(name=f"t{i}", topic_id=bytes(16)), 0)
        for i in range(count)
    ]
    return b"".join(encode_snapshot(ID, values, appended_at_ms=5, now_ms=9))


@pytest.mark.parametrize("count", [0, 1, 1000, 2500])
def test_saved_snapshot_is_loaded(count: int) -> None:
    loaded = decode_snapshot(ID, snapshot(count))
    assert (loaded.end_offset, loaded.epoch, loaded.appended_at_ms) == (7, 2, 5)
    assert [record.name for record in loaded.records] == [f"t{i}" for i in range(count)]  # type: ignore[attr-defined]


def test_truncated_snapshot_is_ignored() -> None:
    """mD6."""
    whole = snapshot(3)
    for size in range(len(whole)):
        with pytest.raises(SnapshotDamaged):
            decode_snapshot(ID, whole[:size])


def test_snapshot_with_flipped_bit_is_ignored() -> None:
    whole = bytearray(snapshot(3))
    whole[len(whole) // 2] ^= 1
    with pytest.raises(SnapshotDamaged):
        decode_snapshot(ID, bytes(whole))


def test_snapshot_names_are_kafkas() -> None:
    assert snapshot_name(ID) == "00000000000000000007-0000000002.checkpoint"


def test_partial_and_outdated_snapshots_are_removed(tmp_path: Path) -> None:
    files = SnapshotFiles(tmp_path)
    for item in (OffsetAndEpoch(3, 1), ID):
        files.write(item, [b"x"])
    (tmp_path / (snapshot_name(OffsetAndEpoch(9, 2)) + ".part")).write_text("")
    (tmp_path / "00000000000000000009-0000000002-8812.checkpoint.part").write_text("")
    (tmp_path / "00000000000000000002-0000000001.checkpoint.deleted").write_text("")
    (tmp_path / "other.txt").write_text("")
    files = SnapshotFiles(tmp_path)
    files.open(log_start_offset=5)
    assert files.ids == [ID]
    assert sorted(p.name for p in tmp_path.iterdir()) == [snapshot_name(ID), "other.txt"]


# --- logs


@pytest.fixture
def directory(tmp_path: Path) -> LogDirectory:
    MetaProperties("cluster", 1, bytes([1]) * 16).save(tmp_path)
    return LogDirectory(tmp_path)


@pytest.fixture
def log(directory: LogDirectory) -> MetadataLog:
    return open_metadata_log(directory, LogConfig())


def batch(size: int) -> bytes:
    return build_batch([NewRecord(None, b"x", 0)] * size)


def append(log: MetadataLog, epoch: int, *sizes: int) -> None:
    log.append_as_leader(
        LeaderAppend(log.end_offset, epoch, tuple(Proposal(batch(s), s) for s in sizes)), 0
    )


def view(log: MetadataLog | SimLog) -> tuple[object, ...]:
    epochs = [log.end_offset_for_epoch(epoch) for epoch in range(8)]
    return (
        log.start_offset,
        log.end_offset,
        log.last_epoch,
        log.earliest_snapshot,
        log.latest_snapshot,
        *epochs,
    )


def test_simulated_log_behaves_like_real_one(log: MetadataLog) -> None:
    """The simulation is only as good as its log: random histories, with every result compared."""
    prng = random.Random(1)
    twin = SimLog()
    epoch = 1
    for step in range(300):
        kind = prng.random()
        if kind < 0.6:
            epoch += prng.random() < 0.2
            epoch = min(epoch, 7)
            size = prng.randint(1, 3)
            append(log, epoch, size)
            twin.append(Entry(twin.end_offset, twin.end_offset + size, epoch, step, step))
        elif kind < 0.9:
            offset = prng.randint(twin.start_offset, twin.end_offset)
            log.truncate_to(offset)
            twin.truncate_to(offset)
            epoch = max(epoch, twin.last_epoch)
        elif twin.end_offset > twin.start_offset:
            snapshot_id = OffsetAndEpoch(twin.end_offset, twin.last_epoch)
            log.snapshots.write(snapshot_id, [b"x"])
            log.snapshots.added(snapshot_id)
            log.snapshots.unlink(log.clean_before(snapshot_id, 0))
            twin.add_snapshot(snapshot_id, b"x")
            twin.clean()
        assert view(log) == view(twin), f"step {step}"


def test_recent_append_reads_back_as_on_disk(log: MetadataLog) -> None:
    """Recently appended data is returned from memory if requested as a whole; truncated or partial data is not."""
    append(log, 1, 2, 1)
    append(log, 3, 2, 1)

    def on_disk(upto: int, max_bytes: int = 1 << 20) -> bytes:
        return log.log.read_bytes(3, max_bytes, upto_offset=upto)

    assert isinstance(log.read_bytes(3, 1 << 20, 6), memoryview)
    assert log.read_bytes(3, 1 << 20, 6) == on_disk(6)
    assert log.read_bytes(3, 1 << 20, 5) == on_disk(5) != on_disk(6)
    assert log.read_bytes(3, 1, 6) == on_disk(6, 1) != on_disk(6)
    log.truncate_to(5)
    append(log, 4, 1)
    assert log.read_bytes(3, 1 << 20, 6) == on_disk(6)


def test_memory_observer_follows_a_disk_log(log: MetadataLog) -> None:
    append(log, 1, 2, 1)
    append(log, 3, 2)
    mirror = MemoryLog()
    mirror.append_fetched(log.read_bytes(0, 1 << 20, log.end_offset))
    assert (mirror.end_offset, mirror.last_epoch) == (5, 3)
    assert [mirror.end_offset_for_epoch(e) for e in (1, 2, 3)] == [(3, 1), (3, 1), (5, 3)]
    mirror.forget_applied(2)
    assert [b.base_offset for b in mirror.batches(0, 5)] == [2, 3]
    mirror.truncate_to(3)
    assert (mirror.end_offset, mirror.last_epoch) == (3, 1)


def test_epoch_begins_with_a_control_record(log: MetadataLog) -> None:
    opening = ControlBatch((LeaderChange(1, (1, 2, 3), (1, 2)),))
    log.append_as_leader(LeaderAppend(0, 4, (opening, Proposal(batch(2), 2))), 77)
    first, second = log.batches(0, 3)
    assert first.is_control
    assert (first.base_offset, first.leader_epoch, first.max_timestamp) == (0, 4, 77)
    assert (second.base_offset, second.next_offset, second.is_control) == (1, 3, False)


def test_snapshot_fetched_before_crash_is_used(directory: LogDirectory, log: MetadataLog) -> None:
    append(log, 1, 3)
    log.snapshots.write(OffsetAndEpoch(9, 2), [snapshot(3)])
    again = MetadataLog(log.log, SnapshotFiles(log.log.directory))
    assert (again.start_offset, again.end_offset, again.last_epoch) == (9, 9, 2)


def test_log_starting_behind_its_snapshots_is_refused(log: MetadataLog) -> None:
    append(log, 1, 3, 3)
    log.log.delete_records_before(3)
    with pytest.raises(SnapshotDamaged, match="without a snapshot"):
        MetadataLog(log.log, SnapshotFiles(log.log.directory))


# --- fetched data


def test_fetched_batches_are_checked(log: MetadataLog) -> None:
    append(log, 1, 2, 1)
    append(log, 2, 2)
    data = log.read_bytes(0, 1 << 20, log.end_offset)
    assert bytes(validate_fetched(data, 0, 2)) == data
    cut = bytes(validate_fetched(data[:-5], 0, 2))
    assert data.startswith(cut)
    assert 0 < len(cut) < len(data)
    with pytest.raises(RemoteProtocolError, match="does not continue"):
        validate_fetched(data, 1, 2)
    with pytest.raises(RemoteProtocolError, match="epoch 1"):
        validate_fetched(data, 0, 1)
    damaged = bytearray(data)
    damaged[70] ^= 1
    with pytest.raises(KafkaError, match="CRC"):
        validate_fetched(bytes(damaged), 0, 2)


def batch_of(**stamped: int) -> bytearray:
    """Returns two records of metadata at offset 0; header fields as in `stamped`, with the right checksum."""
    value = encode_metadata_record(TopicRecord(name="t", topic_id=bytes(15) + b"\1"), 0)
    data = bytearray(build_batch([NewRecord(None, value, 5)] * 2, leader_epoch=2))
    header = list(HEADER.unpack_from(data))
    for name, number in stamped.items():
        header[HEADER_FIELDS.index(name)] = number
    HEADER.pack_into(data, 0, *header)
    CRC.pack_into(data, CRC_POSITION, crc32c.crc32c(bytes(data[CRC_START:])))
    return data


HEADER_FIELDS = (
    *("base_offset", "length", "leader_epoch", "magic", "crc", "attributes", "last_offset_delta"),
    *("base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "count"),
)


@pytest.mark.parametrize(
    "stamped",
    [
        {"leader_epoch": 1},
        {"leader_epoch": -1},
        {"leader_epoch": 4},
        {"count": 0},
        {"count": 0, "last_offset_delta": 0},
        {"count": 3},
        {"count": 3, "last_offset_delta": 2},
        {"count": 1, "last_offset_delta": 0},
        {"count": 2**31 - 1, "last_offset_delta": 2**31 - 2},
        {"last_offset_delta": 2**31 - 1},
        {"last_offset_delta": -1},
        {"attributes": 7},
        {"attributes": 1},
        {"attributes": 0x20},
    ],
    ids=str,
)
def test_batch_unreadable_on_restart_is_refused(stamped: dict[str, int]) -> None:
    """The batch's checksum is right: once the batch is in the log, every start would end at it."""
    assert bytes(validate_fetched(batch_of(), 0, 3, 2)) == batch_of()
    with pytest.raises((RemoteProtocolError, KafkaError)):
        validate_fetched(batch_of(**stamped), 0, 3, 2)


def test_snapshot_names_voters_once() -> None:
    """With two sets neither is certainly the one at the snapshot's end."""
    voters = VoterSet.static([Peer(1)])
    whole = list(
        encode_snapshot(
            OffsetAndEpoch(5, 1),
            [],
            appended_at_ms=1,
            now_ms=1,
            kraft_version=1,
            voters=voters,
        )
    )
    check_snapshot(OffsetAndEpoch(5, 1), b"".join(whole))
    again = build_control_batch([voters_record(voters)], timestamp_ms=1, leader_epoch=1)
    with pytest.raises(SnapshotDamaged, match="two KRAFT_VOTERS"):
        check_snapshot(OffsetAndEpoch(5, 1), b"".join([whole[0], again, *whole[1:]]))


# --- damage in flushed data (R15)


def damage(log: MetadataLog, offset: int) -> None:
    """Flips one bit of the batch at `offset` on the disk."""
    path = log.log.directory / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    batch = next(b for b in iter_batches(memoryview(data)) if b.base_offset == offset)
    position = sum(b.size for b in iter_batches(memoryview(bytes(data))) if b.base_offset < offset)
    data[position + batch.size - 1] ^= 1
    batch = None
    path.write_bytes(data)


def test_records_behind_damage_are_fetched_again(log: MetadataLog) -> None:
    def open_again() -> MetadataLog:
        return MetadataLog(log.log, SnapshotFiles(log.log.directory), lambda _history: True)

    append(log, 1, 3, 3, 3)
    end = log.end_offset
    log.log.flush()
    damage(log, 3)
    again = open_again()
    assert (again.end_offset, again.refetch_end) == (3, end)
    once_more = open_again()
    assert once_more.refetch_end == end, "it is remembered"
    once_more.refetch.clear()
    assert open_again().refetch_end is None


def test_only_voter_refuses_damaged_flushed_records(log: MetadataLog) -> None:
    append(log, 1, 3, 3, 3)
    log.log.flush()
    log.snapshots.write(OffsetAndEpoch(3, 1), [snapshot(3)])
    damage(log, 6)
    before = (log.log.directory / f"{0:020d}.log").read_bytes()
    for _ in range(2):
        with pytest.raises(LogDamaged, match="offset 6 of 9"):
            MetadataLog(log.log, SnapshotFiles(log.log.directory))
    assert (log.log.directory / f"{0:020d}.log").read_bytes() == before


def test_only_voter_refuses_records_marked_as_missing(log: MetadataLog) -> None:
    append(log, 1, 3, 3)
    log.log.flush()
    log.refetch.set(9)
    for _ in range(2):
        with pytest.raises(LogDamaged, match=r"below offset 9 .*refetch"):
            MetadataLog(log.log, SnapshotFiles(log.log.directory))
    again = MetadataLog(log.log, SnapshotFiles(log.log.directory), lambda _history: True)
    assert (again.end_offset, again.refetch_end) == (6, 9), "nothing was changed"


def test_unreadable_control_record_is_not_appended() -> None:
    """The core uses the voters of a record as soon as it is in the log."""
    key = encode_control_key(ControlType.KRAFT_VOTERS)
    bad = build_batch([NewRecord(key, b"\x00\x00\x07", 5)], leader_epoch=1, is_control=True)
    with pytest.raises(RemoteProtocolError):
        validate_fetched(bad, 0, 1)
