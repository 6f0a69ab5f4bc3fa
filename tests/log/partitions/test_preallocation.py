"""`preallocate`: new segments have their full size as zeros; readers of the log never see them."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest

from tests.log.helpers import SMALL, fill, open_log, read_all
from trimaran.log.disk.files import Files

PREALLOCATED = replace(SMALL, preallocate=True)


def sizes(directory):
    return {int(path.stem): path.stat().st_size for path in sorted(directory.glob("*.log"))}


def test_only_active_segment_has_preallocated_size(tmp_path):
    plain = fill(open_log(tmp_path / "plain-0"))
    log = fill(open_log(tmp_path / "t-0", PREALLOCATED))
    expected = sizes(tmp_path / "plain-0")
    assert len(expected) > 1
    assert sizes(tmp_path / "t-0") == {**expected, max(expected): SMALL.segment_bytes}
    assert log.size_bytes == plain.size_bytes
    assert read_all(log) == read_all(plain)
    log.close()
    assert sizes(tmp_path / "t-0") == expected
    assert read_all(open_log(tmp_path / "t-0", PREALLOCATED, clean=True)) == read_all(plain)


def test_segment_is_preallocated_again_only_after_emptying(tmp_path):
    files = mock.Mock(wraps=Files())
    log = fill(open_log(tmp_path / "t-0", PREALLOCATED, files=files))
    assert files.preallocate.call_count == len(log.segment_base_offsets) > 1
    emptied = fill(open_log(tmp_path / "u-0", PREALLOCATED), 1)
    emptied.truncate_to(1)
    assert sizes(tmp_path / "u-0") == {0: 0}
    fill(emptied, 1)
    assert sizes(tmp_path / "u-0") == {0: SMALL.segment_bytes}


def test_emptied_log_is_sound_after_clean_stop(tmp_path):
    """Otherwise the next start would treat the zeros of its segment as damage, and refuse the replica permanently."""
    log = fill(open_log(tmp_path / "t-0", PREALLOCATED), 3)
    log.truncate_fully_and_start_at(0)
    assert sizes(tmp_path / "t-0") == {0: SMALL.segment_bytes}
    log.close()
    assert sizes(tmp_path / "t-0") == {0: 0}
    assert open_log(tmp_path / "t-0", PREALLOCATED, clean=True).log_end_offset == 0


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("batches", [1, 20])
def test_recovery_takes_no_zeros_for_records(tmp_path, batches, flushed):
    log = fill(open_log(tmp_path / "t-0", PREALLOCATED), batches)
    expected, end = read_all(log), log.log_end_offset
    recovery_point = log.flush() if flushed else 0
    log.close(clean=False)
    again = open_log(tmp_path / "t-0", PREALLOCATED, recovery_point=recovery_point)
    assert (again.log_end_offset, read_all(again)) == (end, expected)
    fill(again, 3)
    assert read_all(again)[: len(expected)] == expected


def test_rolled_segment_with_returned_zeros_keeps_flushed_records(tmp_path):
    """The truncation was not durable when the power failed. The records that were flushed before are there; no others
    were acknowledged.
    """
    log = fill(open_log(tmp_path / "t-0", PREALLOCATED), 3)
    expected, recovery_point = read_all(log), log.flush()
    log.roll(0)
    log.close(clean=False)
    first = tmp_path / "t-0" / f"{0:020}.log"
    first.write_bytes(first.read_bytes().ljust(SMALL.segment_bytes, b"\0"))
    again = open_log(tmp_path / "t-0", PREALLOCATED, recovery_point=recovery_point)
    assert (again.log_end_offset, read_all(again)) == (recovery_point, expected)


def test_truncation_to_new_start_preallocates_again(tmp_path):
    log = fill(open_log(tmp_path / "t-0", PREALLOCATED), 3)
    log.truncate_to(6)
    fill(log, 1)
    assert log.log_end_offset == 9
    log.truncate_fully_and_start_at(100)
    assert sizes(tmp_path / "t-0") == {100: SMALL.segment_bytes}
    fill(log, 1)
    log.close()
    assert open_log(tmp_path / "t-0", PREALLOCATED, clean=True).log_end_offset == 103
