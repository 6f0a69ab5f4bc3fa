"""Opening: the segments that a crash leaves, and the offsets up to which a log must be complete."""

from __future__ import annotations

import pytest

from tests.log.helpers import batch_bytes, fill, open_log
from trimaran.log.disk.checkpoints import LEADER_EPOCHS
from trimaran.wire.errors import KafkaError


def segment(directory, base_offset, *batches):
    """Writes a `.log` file; each batch is its base offset, the count of its records and its epoch."""
    data = b"".join(
        bytes(batch_bytes(count, base_offset=base, leader_epoch=epoch))
        for base, count, epoch in batches
    )
    directory.mkdir(exist_ok=True)
    (directory / f"{base_offset:020}.log").write_bytes(data)


@pytest.mark.parametrize(
    ("base_offset", "recovery_point", "bases", "end"),
    [
        (8, 0, [0], 9),
        (9, 0, [0, 9], 11),
        (10, 0, [0], 9),
        (10, 9, [0], 9),
        (10, 10, [0, 10], 12),
    ],
)
def test_segment_must_continue_its_predecessor(tmp_path, base_offset, recovery_point, bases, end):
    """Only compaction leaves holes, and only below the recovery point."""
    directory = tmp_path / "t-0"
    segment(directory, 0, (0, 4, 0), (4, 5, 0))
    segment(directory, base_offset, (base_offset, 2, 0))
    log = open_log(directory, recovery_point=min(recovery_point, end))
    assert (list(log.segment_base_offsets), log.log_end_offset) == (bases, end)
    names = sorted(path.name for path in directory.glob("*.log"))
    assert names == [f"{base:020}.log" for base in bases]
    log.close(clean=False)


@pytest.mark.parametrize("clean", [False, True])
def test_log_must_reach_its_recovery_point_after_crash(tmp_path, clean):
    """After a clean stop the checkpoint may be that of an older log of the same name."""
    fill(open_log(tmp_path / "t-0"), 3).close()
    assert open_log(tmp_path / "t-0", clean=clean, recovery_point=9).log_end_offset == 9
    if clean:
        assert open_log(tmp_path / "t-0", clean=True, recovery_point=10).flushed_offset == 9
    else:
        with pytest.raises(KafkaError, match="ends at 9, 10 offsets were flushed"):
            open_log(tmp_path / "t-0", recovery_point=10)


@pytest.mark.parametrize("log_start_offset", [9, 10])
@pytest.mark.parametrize("clean", [False, True])
def test_log_that_ends_below_its_start_begins_anew(tmp_path, clean, log_start_offset):
    """After a clean stop that is damage: the start is wrong, or records are lost."""
    fill(open_log(tmp_path / "t-0"), 3).close()
    if clean and log_start_offset == 10:
        with pytest.raises(KafkaError, match="ends at 9, and starts at 10 by log-start-offset"):
            open_log(tmp_path / "t-0", clean=True, log_start_offset=10)
        return
    log = open_log(tmp_path / "t-0", clean=clean, log_start_offset=log_start_offset)
    ends = (log.log_start_offset, log.log_end_offset)
    assert ends == (log_start_offset, log_start_offset)
    assert log.size_bytes > 0 or log_start_offset == 10
    assert log.epochs.entries() == []
    log.close(clean=False)


def test_missing_segments_are_damage_above_the_start(tmp_path):
    directory = tmp_path / "t-0"
    assert open_log(directory, recovery_point=7, log_start_offset=7).log_end_offset == 7
    with pytest.raises(KafkaError, match="has no segments, 8 offsets were flushed"):
        open_log(directory, recovery_point=8, log_start_offset=7)


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (None, [(1, 0), (2, 4), (4, 7)]),
        (b"damaged", [(1, 0), (2, 4), (4, 7)]),
        (b"0\n3\n1 0\n2 4\n4 7\n", [(1, 0), (2, 4), (4, 7)]),
        (b"0\n3\n1 0\n3 4\n4 7\n", [(1, 0), (3, 4), (4, 7)]),  # the file knows more than batches
        (b"0\n2\n1 0\n2 4\n", [(1, 0), (2, 4), (4, 7)]),  # older than the last batch
        (b"0\n1\n4 7\n", [(1, 0), (2, 4), (4, 7)]),  # deletions were undone
        (b"0\n4\n1 0\n2 4\n4 7\n5 9\n", [(1, 0), (2, 4), (4, 7)]),
    ],
)
def test_epochs_come_from_file_or_batches(tmp_path, stored, expected):
    directory = tmp_path / "t-0"
    segment(directory, 0, (0, 4, 1), (4, 3, 2))
    segment(directory, 7, (7, 2, 4))
    if stored is not None:
        (directory / LEADER_EPOCHS).write_bytes(stored)
    log = open_log(directory, clean=True)
    assert log.epochs.entries() == expected
    log.close(clean=False)
    log = open_log(directory, clean=True, log_start_offset=5)
    assert log.epochs.entries() == [(expected[1][0], 5), (4, 7)]
    log.close(clean=False)


def test_batches_without_epoch_give_no_entries(tmp_path):
    directory = tmp_path / "t-0"
    segment(directory, 0, (0, 4, -1), (4, 3, 0))
    for clean in (True, False):
        log = open_log(directory, clean=clean)
        assert log.epochs.entries() == [(0, 4)]
        log.close(clean=False)
