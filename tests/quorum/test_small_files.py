"""mD3: every small file of a node's directory, damaged in every way, and the result of a start.

A missing optional file counts as absent. An existing damaged file is never ignored: content that the logs also have is
rebuilt; other content is refused by name, and the other files stay unchanged.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.checks import check_each
from tests.log.helpers import SMALL, append, batch_bytes, fill, read_all
from tests.quorum.replica.test_configured import voter_set
from trimaran.log.config import LogConfig
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.meta_properties import MetaPropertiesError
from trimaran.log.disk.checkpoints import read_offsets
from trimaran.log.disk.files import Files
from trimaran.log.segments.segment import SEGMENT_SUFFIXES
from trimaran.quorum.formatting.storage import FirstVoters, format_paths, read_bootstrap
from trimaran.quorum.raft.ready import (
    ControlBatch,
    KRaftVersionChange,
    LeaderAppend,
    LeaderChange,
    Proposal,
    VotersChange,
)
from trimaran.quorum.raft.types import ElectionState, ReplicaKey
from trimaran.quorum.raft.voters import DYNAMIC_QUORUM
from trimaran.quorum.raft_log.metadata_log import open_metadata_log
from trimaran.quorum.raft_log.refetch import RefetchMark, RefetchMarkDamaged
from trimaran.quorum.raft_log.snapshot_format import SnapshotDamaged
from trimaran.quorum.replica.quorum_state_file import QuorumStateError, load_election, save_election
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

TOPIC_ID = bytes(range(100, 116))
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
METADATA = "__cluster_metadata-0"
State = dict[str, Any]


def build(path: Path) -> None:
    """Builds the directory of a node with both roles, with every small file, after a clean stop."""
    voters = voter_set(1)
    format_paths([path], CLUSTER_ID, 1, quorum=FirstVoters(path, voters))
    directory = LogDirectory(path)
    metadata = open_metadata_log(directory, LogConfig())
    head = (
        LeaderChange(1, (1,), (1,)),
        KRaftVersionChange(DYNAMIC_QUORUM),
        VotersChange(voters),
    )
    metadata.append_as_leader(LeaderAppend(0, 1, (ControlBatch(head),)), now_ms=1)
    proposal = Proposal(bytes(batch_bytes(3)), 3)
    metadata.append_as_leader(LeaderAppend(3, 1, (proposal,)), now_ms=1)
    metadata.log.flush()
    metadata.reach_recovery_point()
    metadata.save_recovery_point()
    RefetchMark(path / METADATA).set(4)
    election = ElectionState(3, 1, ReplicaKey(1, bytes([1]) * 16))
    save_election(path / METADATA, election, metadata.history)
    log = directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL)
    _ = log.producers
    for sequence in range(30):
        epoch = sequence // 10
        append(log, epoch=epoch, producer_id=7, producer_epoch=0, base_sequence=sequence)
    log.delete_records_before(5)
    fill(directory.create_log(TopicPartition("u", 0), TOPIC_ID, SMALL), 1).flush()
    directory.take_out(TopicPartition("u", 0), "its third batch is damaged")
    directory.save_checkpoints({("t", 0): 25})
    directory.write_checkpoints(directory.offsets.collect_cleaned({("t", 0): 20}))
    directory.close(broker_epoch=7)


def start(path: Path) -> State:
    """Returns the state that a start finds; raises its refusal."""
    directory = LogDirectory(path)
    try:
        state: State = {
            "identity": directory.meta_properties,
            "broker epoch": directory.previous_broker_epoch,
            "first records": read_bootstrap(path),
            "unsettled": directory.offsets.written_logs,
            "cleaned": directory.offsets.cleaner_offsets,
        }
        metadata = open_metadata_log(directory, LogConfig(), lambda _history: True)
        state["metadata"] = [
            bytes(batch.buffer) for batch in metadata.batches(0, metadata.end_offset)
        ]
        state["voters"] = metadata.history.voters
        state["refetch"] = metadata.refetch_end
        state["election"] = load_election(path / METADATA)
        state["t"] = replica(directory, "t")
        state["u"] = replica(directory, "u")
        state["offline"] = directory.offline
        return state
    finally:
        directory.close(broker_epoch=None)


REFUSALS = (
    MetaPropertiesError,
    SnapshotDamaged,
    QuorumStateError,
    RefetchMarkDamaged,
    KafkaError,
    OSError,
)


def started(path: Path) -> tuple[State, Exception | None]:
    try:
        return start(path), None
    except REFUSALS as refusal:
        return {}, refusal


def replica(directory: LogDirectory, topic: str) -> object:
    try:
        if not directory.is_of(TopicPartition(topic, 0), TOPIC_ID):
            return "of another topic"
        log = directory.open_log(TopicPartition(topic, 0), SMALL)
        known = [(n, e.batches[-1].last_sequence) for n, e in log.producers.entries()]
        watermark = directory.high_watermark(TopicPartition(topic, 0))
        return log.log_start_offset, read_all(log), log.epochs.entries(), known, watermark
    except KafkaError as error:
        return "out of service" if error.code is ErrorCode.KAFKA_STORAGE_ERROR else error


# The effect of the file on a start: the error of its refusal, or the differences from an undamaged directory.
Outcome = type[Exception] | Mapping[str, object]
OUTCOMES: dict[str, Outcome] = {
    "meta.properties": MetaPropertiesError,
    "bootstrap.checkpoint": SnapshotDamaged,
    f"{METADATA}/quorum-state": QuorumStateError,
    f"{METADATA}.refetch": RefetchMarkDamaged,
    f"{METADATA}.flushed": {},
    # The log repeats the voters of the first snapshot.
    f"{METADATA}/{0:020d}-{0:010d}.checkpoint": {},
    f"{METADATA}/leader-epoch-checkpoint": {},
    ".kafka_cleanshutdown": {"broker epoch": None},
    "recovery-point-offset-checkpoint": {},
    "log-start-offset-checkpoint": {},
    "replication-offset-checkpoint": {"watermark": 0},
    "cleaner-offset-checkpoint": {"cleaned": {}},
    "written-logs-checkpoint": {"unsettled": {}},
    "t-0/partition.metadata": {"t": "out of service"},
    "u-0/partition.metadata": {},  # the partition is already out of service
    "t-0/leader-epoch-checkpoint": {},
    f"{METADATA}/{6:020d}.snapshot": {},
    f"t-0/{22:020d}.snapshot": {},
    f"t-0/{30:020d}.snapshot": {},
    "u-0/leader-epoch-checkpoint": {},
    "u-0/damaged": {},
}
# A changed bit in these is not detectable: Kafka's format has neither a checksum nor a field for one.
WITHOUT_CHECKSUM = re.compile(
    r".*offset-checkpoint|.*leader-epoch-checkpoint|.*logs-checkpoint|\.kafka_.*|.*/damaged"
)
# The damage of these files is not detected, because no node reads them.
NOT_ASKED = (
    "u-0/leader-epoch-checkpoint",
    "u-0/partition.metadata",
    "u-0/damaged",
    f"{METADATA}/{6:020d}.snapshot",
    f"t-0/{22:020d}.snapshot",
)
# Damage that leaves valid content, with its meaning.
LEGAL: dict[tuple[str, str], Mapping[str, object]] = {
    (".kafka_cleanshutdown", "empty"): {"broker epoch": -1},  # Kafka before 3.7
    # Kafka creates these files empty.
    (f"{METADATA}/leader-epoch-checkpoint", "empty"): {},
    ("t-0/leader-epoch-checkpoint", "empty"): {},
    ("cleaner-offset-checkpoint", "empty"): {"cleaned": {}},
    ("written-logs-checkpoint", "empty"): {"unsettled": {}},
}


def of_a_later_version(name: str, data: bytes) -> bytes:
    """Returns the data as of a later version, or unchanged if the format has no version. Kafka accepts a later version
    of `partition.metadata`.
    """
    if name.endswith("-checkpoint"):
        return b"7" + data[1:]
    if name.endswith(".snapshot"):
        return b"\0\7" + data[2:]
    without_checksum = re.sub(rb"#crc32c .*\n", b"", data)
    later = re.sub(rb'(version"?[=:])[01]', rb"\g<1>7", without_checksum)
    return data if later == without_checksum else later


def damages(name: str, data: bytes) -> Iterator[tuple[str, bytes | Callable[[Path], object]]]:
    """Yields replacements of the file, or functions that make them."""
    for size in {1, len(data) // 2, len(data) - 2, len(data) - 1}:
        yield f"cut at {size}", data[:size]
    bits = () if WITHOUT_CHECKSUM.fullmatch(name) else range(0, 8 * len(data), 2 * len(data) | 1)
    for bit in bits:
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        yield f"bit {bit}", bytes(changed)
    yield "empty", b""
    yield "zeros", bytes(len(data))
    yield "garbage", Random(3).randbytes(len(data))
    if (later := of_a_later_version(name, data)) != data:
        yield "another version", later
    yield "a directory", Path.mkdir
    yield "a FIFO", os.mkfifo
    yield "a link to nowhere", lambda path: path.symlink_to("nowhere")
    yield "a link to itself", lambda path: path.symlink_to(path.name)


def copied(source: Path, target: Path) -> Path:
    """Copies like `shutil.copytree`, but much faster."""
    for entry in [source, *source.rglob("*")]:
        copy = target / entry.relative_to(source)
        copy.mkdir() if entry.is_dir() else copy.write_bytes(entry.read_bytes())
    return target


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("node") / "sound"
    build(path)
    return path


@pytest.fixture(scope="module")
def undamaged(sound: Path, tmp_path_factory: pytest.TempPathFactory) -> State:
    return start(copied(sound, tmp_path_factory.mktemp("node") / "again"))


def expected(undamaged: State, changes: Mapping[str, object]) -> State:
    state = undamaged | {key: value for key, value in changes.items() if key != "watermark"}
    if "watermark" in changes:
        state["t"] = (*undamaged["t"][:-1], changes["watermark"])
    return state


def test_undamaged_directory_has_the_expected_state(undamaged: State) -> None:
    """Otherwise the table would prove nothing."""
    start_offset, batches, epochs, known, watermark = undamaged["t"]
    assert (start_offset, len(batches), watermark) == (5, 25, 25)
    assert epochs == [(0, 5), (1, 10), (2, 20)]
    assert known == [(7, 29)]
    assert (undamaged["broker epoch"], undamaged["refetch"]) == (7, 4)
    assert undamaged["u"] == "out of service"
    assert undamaged["unsettled"]
    assert undamaged["election"].epoch == 3
    assert list(undamaged["voters"].ids) == [1]


def test_table_names_every_small_file(sound: Path) -> None:
    found = {str(path.relative_to(sound)) for path in sound.rglob("*") if path.is_file()}
    data = {name for name in found if name.endswith(SEGMENT_SUFFIXES)}
    assert found - data - {".lock"} == OUTCOMES.keys()


def check_outcome(
    name: str, kind: str, left: Path, undamaged: State, caplog: pytest.LogCaptureFixture
) -> None:
    outcome = LEGAL.get((name, kind), OUTCOMES[name])
    caplog.clear()
    found, refusal = started(left)
    if refusal is not None:
        assert type(refusal) is outcome
        assert Path(name).name in str(refusal)
        return
    if kind.startswith(("bit", "cut")) and found == undamaged:
        return  # the content means the same without this byte: the end of a line, a comment
    assert not isinstance(outcome, type), "it was to be refused"
    assert found == expected(undamaged, outcome)
    is_told = [Path(name).name in record.getMessage() for record in caplog.records].count(True)
    is_silent = name in NOT_ASKED or (name, kind) in LEGAL or name == "t-0/partition.metadata"
    assert is_told == (not is_silent), "once"


@pytest.mark.parametrize("name", OUTCOMES)
def test_damaged_small_file_is_rebuilt_or_refused(
    name: str, sound: Path, undamaged: State, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = (sound / name).read_bytes()

    def check(damage: tuple[str, bytes | Callable[[Path], object]]) -> None:
        kind, instead = damage
        left = copied(sound, tmp_path / kind)
        (left / name).unlink()
        (left / name).write_bytes(instead) if isinstance(instead, bytes) else instead(left / name)
        check_outcome(name, kind, left, undamaged, caplog)

    check_each(damages(name, data), check)


def refuse_to_open(patch: pytest.MonkeyPatch, path: Path, error: int) -> None:
    """Raises the error for missing permissions, which root never gets, or for a bad block."""
    real = Files._descriptor

    def descriptor(self: Files, opened: Path, flags: int) -> int:
        if opened == path:
            raise OSError(error, os.strerror(error), str(opened))
        return real(self, opened, flags)

    patch.setattr(Files, "_descriptor", descriptor)


@pytest.mark.parametrize("name", OUTCOMES)
def test_unreadable_small_file_counts_as_damaged(
    name: str,
    sound: Path,
    undamaged: State,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = copied(sound, tmp_path / "left")
    refuse_to_open(monkeypatch, left / name, errno.EACCES)
    check_outcome(name, "no right to it", left, undamaged, caplog)


@pytest.mark.parametrize("name", sorted(OUTCOMES.keys() - set(NOT_ASKED)))
def test_disk_error_on_small_file_is_disk_failure(
    name: str, sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = copied(sound, tmp_path / "left")
    refuse_to_open(monkeypatch, left / name, errno.EIO)
    found, refusal = started(left)
    assert found.get("offline") or isinstance(refusal, OSError | KafkaError)


def test_leftover_temporary_file_is_no_damage(
    sound: Path, undamaged: State, tmp_path: Path
) -> None:
    path = copied(sound, tmp_path / "left")
    for name in OUTCOMES:
        (path / f"{name}.tmp").write_bytes(b"half of ")
    assert start(path) == undamaged


def test_moved_log_start_survives_damaged_checkpoint(sound: Path, tmp_path: Path) -> None:
    path = copied(sound, tmp_path / "left")
    directory = LogDirectory(path)
    directory.open_log(TopicPartition("t", 0), SMALL).delete_records_before(17)
    directory.close(broker_epoch=8)
    (path / "log-start-offset-checkpoint").write_bytes(b"")
    assert start(path)["t"][0] == 17


def test_damaged_leader_epochs_are_logged_once(
    sound: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = copied(sound, tmp_path / "left")
    (path / "t-0" / "leader-epoch-checkpoint").write_bytes(b"0\n")
    for _ in range(2):
        directory = LogDirectory(path)
        directory.open_log(TopicPartition("t", 0), SMALL)
        directory.close(broker_epoch=8)
    assert [r.getMessage() for r in caplog.records if "epoch-checkpoint" in r.getMessage()][
        1:
    ] == []
    assert "epoch-checkpoint" in caplog.text


def test_sole_voter_needs_its_first_voter_set(tmp_path: Path) -> None:
    """The first voters are in no log yet. Without them the voter would wait for a leader forever."""
    quorum = FirstVoters(tmp_path, voter_set(1))
    format_paths([tmp_path], CLUSTER_ID, 1, quorum=quorum)
    [checkpoint] = (tmp_path / METADATA).glob("*.checkpoint")
    checkpoint.write_bytes(checkpoint.read_bytes()[:-1])
    directory = LogDirectory(tmp_path)
    with pytest.raises(SnapshotDamaged, match=checkpoint.name):
        open_metadata_log(directory, LogConfig())
    directory.close(broker_epoch=None)
    assert checkpoint.exists()


def test_damaged_log_starts_are_rewritten_first(
    sound: Path, undamaged: State, tmp_path: Path
) -> None:
    """A crash right after the start must not leave fewer start offsets in the checkpoint."""
    path = copied(sound, tmp_path / "left")
    (path / "log-start-offset-checkpoint").write_bytes(b"0\n1\nt 0")
    LogDirectory(path).close(broker_epoch=None)
    assert read_offsets(path / "log-start-offset-checkpoint") == {("t", 0): 5}
    assert start(path)["t"] == undamaged["t"]
