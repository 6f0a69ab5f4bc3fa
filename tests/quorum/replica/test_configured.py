"""A replica built from its configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.quorum.config_of import config_of
from tests.quorum.metadata.build import features, topic
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.meta_properties import MetaPropertiesError
from trimaran.node.runtime.clock import now_ms
from trimaran.quorum.formatting.initial_voters import parse_initial_voters
from trimaran.quorum.formatting.storage import format_directories
from trimaran.quorum.metadata.loader import MetadataLoader
from trimaran.quorum.raft.listener import CommittedBatch
from trimaran.quorum.raft.types import OffsetAndEpoch
from trimaran.quorum.raft.voters import VoterSet
from trimaran.quorum.raft_log.snapshot_format import SnapshotDamaged, encode_snapshot
from trimaran.quorum.replica.configured import (
    check_metadata,
    open_log,
    snapshot_of,
    timeouts_of,
)
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.records.transactions import BeginTransactionRecord, EndTransactionRecord


def test_configured_linger_applies_default_is_none():
    key = "controller_quorum_append_linger_ms"
    assert timeouts_of(config_of(**{key: 40})).append_linger == 0.04
    assert timeouts_of(config_of(**{key: 0})).append_linger == 0
    assert timeouts_of(config_of(**{key: 25})).append_linger == 0.025, "Kafka's default, if said"
    assert timeouts_of(config_of()).append_linger == 0
    assert config_of()["controller.quorum.append.linger.ms"] == 0, "what DescribeConfigs tells"


@pytest.mark.parametrize(("configured", "used"), [(None, 1 << 20), (1, 1), (2**31 - 1, 8 << 20)])
def test_answer_sizes_follow_configuration_within_step_limit(configured, used):
    keys = ("controller_quorum_fetch_max_bytes", "controller_quorum_fetch_snapshot_max_bytes")
    chosen = {} if configured is None else dict.fromkeys(keys, configured)
    timeouts = timeouts_of(config_of(**chosen))
    assert (timeouts.fetch_max_bytes, timeouts.snapshot_max_bytes) == (used, used)


@pytest.mark.parametrize("is_linked", [False, True])
def test_metadata_log_in_another_directory_prevents_start(tmp_path, is_linked):
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    if is_linked:
        second.symlink_to(first)
    else:
        second.mkdir()
    (first / "__cluster_metadata-0").mkdir()
    check_metadata(config_of(log_dirs=f"{first},{second}"))
    moved = config_of(log_dirs=f"{first},{second}", metadata_log_dir=second)
    if is_linked:
        check_metadata(moved)
        return
    with pytest.raises(MetaPropertiesError, match=f"^{first} holds a metadata log, and {second} "):
        check_metadata(moved)


# --- a damaged snapshot at the start of the log

ID = OffsetAndEpoch(7, 2)
OTHERS = {"controller_quorum_voters": "1@127.0.0.1:9093,2@127.0.0.1:9094"}
BOOTSTRAP = {
    "controller_quorum_voters": "",
    "listeners": "CONTROLLER://127.0.0.1:9093",
    "controller_quorum_bootstrap_servers": "127.0.0.1:9093,127.0.0.1:9094",
}
ALONE = BOOTSTRAP | {"controller_quorum_bootstrap_servers": "127.0.0.1:9093"}


def voter_set(*node_ids: int) -> VoterSet:
    return parse_initial_voters(
        ",".join(f"{i}@127.0.0.1:{9092 + i}:{uuid_to_text(bytes([i]) * 16)}" for i in node_ids),
        "CONTROLLER",
    )


def damaged(path: Path, voters: VoterSet | None, *, at: int = -1, **changes: str) -> LogDirectory:
    """Returns a directory whose log begins at a snapshot with a wrong byte, by default at its end, after the voters."""
    config = config_of(log_dirs=path, **changes)
    format_directories(config, "5L6g3nShT-eMCtK--X86sw", voters=voters)
    directory = LogDirectory(path, now_ms=now_ms)
    log = open_log(config, directory)
    whole = b"".join(
        encode_snapshot(
            ID,
            [b"x" * 100],
            appended_at_ms=5,
            now_ms=9,
            kraft_version=0 if voters is None else 1,
            voters=voters,
        )
    )
    hurt = bytearray(whole)
    hurt[at] ^= 1
    log.snapshots.write(ID, [bytes(hurt)])
    log.log.truncate_fully_and_start_at(ID.offset)
    directory.close(broker_epoch=-1)
    return LogDirectory(path, now_ms=now_ms)


@pytest.mark.parametrize(
    ("voters", "at", "changes"),
    [
        (None, -1, OTHERS),
        (None, -1, BOOTSTRAP),
        (voter_set(1, 2), -1, BOOTSTRAP),
        (voter_set(1, 2), 70, BOOTSTRAP),
        (None, -1, {"process_roles": "broker", "node_id": "7", "listeners": "PLAINTEXT://:0"}),
    ],
    ids=["static", "only bootstrap servers", "dynamic", "voters unreadable", "broker"],
)
def test_voter_with_damaged_snapshot_fetches_everything_again(
    tmp_path: Path, voters: VoterSet | None, at: int, changes: dict[str, str]
) -> None:
    directory = damaged(tmp_path, voters, at=at, **changes)
    config = config_of(log_dirs=tmp_path, **changes)
    log = open_log(config, directory)
    assert (log.start_offset, log.end_offset, log.refetch_end) == (0, 0, ID.offset)
    assert log.latest_snapshot is None
    assert not log.history.is_dynamic
    directory.close(broker_epoch=-1)
    directory = LogDirectory(tmp_path, now_ms=now_ms)
    again = open_log(config, directory)
    assert (again.start_offset, again.end_offset, again.refetch_end) == (0, 0, ID.offset)
    directory.close(broker_epoch=-1)


@pytest.mark.parametrize(
    ("voters", "changes"),
    [(None, {}), (None, ALONE), (voter_set(1), BOOTSTRAP)],
    ids=["static", "no other bootstrap server", "dynamic with observers"],
)
def test_sole_voter_with_damaged_snapshot_refuses_start(
    tmp_path: Path, voters: VoterSet | None, changes: dict[str, str]
) -> None:
    directory = damaged(tmp_path, voters, **changes)
    with pytest.raises(SnapshotDamaged):
        open_log(config_of(log_dirs=tmp_path, **changes), directory)
    assert (tmp_path / "__cluster_metadata-0" / f"{7:020d}-{2:010d}.checkpoint").exists()
    directory.close(broker_epoch=-1)


def test_snapshot_never_ends_inside_mid_batch_transaction():
    """Apache Kafka merges the records appended within its linger into one batch; a snapshot ends at the end of a batch
    (R9).
    """
    loader = MetadataLoader()
    loader.apply_committed(
        committed(0, features(), BeginTransactionRecord(name="t"), topic("t", 1))
    )
    assert loader.image.provenance.offset == 0
    assert snapshot_of(loader) is None
    loader.apply_committed(committed(3, EndTransactionRecord()))
    content = snapshot_of(loader)
    assert content is not None
    assert content.end_offset == 4


def committed(base_offset, *records):
    last_offset = base_offset + len(records) - 1
    return CommittedBatch(base_offset, last_offset, 1, 1000, 100, list(records))
