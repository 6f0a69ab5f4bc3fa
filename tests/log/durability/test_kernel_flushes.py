"""Which flushes consist only of fdatasyncs, so that the kernel can run them asynchronously."""

import errno
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.log.helpers import SMALL, append, fill, open_log
from trimaran.log.disk.files import WRITTEN_OUT_BYTES


def opened(path):
    """Returns a log that was flushed once: its names and its directory are durable."""
    log = fill(open_log(path), 3)
    assert not log.needs_only_a_sync
    assert log.prepare_flush().descriptors() is None
    log.flush()
    append(log)
    return log


def test_append_to_open_segment_needs_only_a_sync(tmp_path):
    log = opened(tmp_path / "t-0")
    assert log.needs_only_a_sync
    flush = log.prepare_flush()
    assert flush.descriptors() == [log._segments.active.file.fileno()]
    append(log)
    flush.synced(None)
    assert log.finish_flush(flush) == log.log_end_offset - 1
    assert log.needs_only_a_sync


def test_new_segment_needs_more_than_sync(tmp_path):
    log = opened(tmp_path / "t-0")
    fill(log, 30)
    assert not log.needs_only_a_sync
    assert log.prepare_flush().descriptors() is None
    log.flush()
    append(log)
    assert log.needs_only_a_sync


def test_new_epoch_needs_more_than_sync(tmp_path):
    log = opened(tmp_path / "t-0")
    append(log, epoch=1)
    assert not log.needs_only_a_sync
    assert log.prepare_flush().descriptors() is None


def test_epoch_that_began_during_flush_needs_more(tmp_path):
    log = opened(tmp_path / "t-0")
    append(log, epoch=1)
    flush = log.prepare_flush()
    append(log, epoch=2)
    flush.run()
    log.finish_flush(flush)
    assert not log.needs_only_a_sync
    assert log.prepare_flush().descriptors() is None


def test_megabytes_are_written_out_first(tmp_path):
    log = fill(open_log(tmp_path / "t-0", replace(SMALL, segment_bytes=64 << 20)), 3)
    log.flush()
    append(log, value=bytes(WRITTEN_OUT_BYTES - 1000))
    assert log.needs_only_a_sync
    assert log.prepare_flush().descriptors() is not None
    append(log, value=bytes(WRITTEN_OUT_BYTES + 1000))
    assert not log.needs_only_a_sync
    assert log.prepare_flush().descriptors() is None


def test_failed_sync_takes_directory_offline(tmp_path):
    log = opened(tmp_path / "t-0")
    flushed, flush = log.flushed_offset, log.prepare_flush()
    with pytest.raises(OSError, match="dead"):
        flush.synced(OSError(errno.EIO, "dead"))
    assert log.finish_flush(flush) == flushed
    assert "dead" in log.health.offline
    with pytest.raises(OSError, match="dead"):
        log.prepare_flush()


def test_offline_directory_syncs_nothing_more(tmp_path):
    log = opened(tmp_path / "t-0")
    flush = log.prepare_flush()
    log.health.fail("dead")
    assert flush.descriptors() is None
    with pytest.raises(OSError, match="dead"):
        flush.run()


@settings(max_examples=60)
@given(steps=st.lists(st.sampled_from(["append", "many", "epoch", "cut", "flush"]), max_size=12))
def test_log_needing_only_sync_has_descriptors(tmp_path_factory, steps):
    log, epoch = open_log(tmp_path_factory.mktemp("logs") / "t-0"), 0
    for step in steps:
        if step == "append":
            append(log, epoch=epoch)
        elif step == "many":
            fill(log, 8, epoch=epoch)
        elif step == "epoch":
            epoch += 1
        elif step == "cut":
            log.truncate_to(max(0, log.log_end_offset - 4))
        else:
            log.flush()
        if log.log_end_offset and log.needs_only_a_sync:
            flush = log.prepare_flush()
            assert flush.descriptors()
            log.finish_flush(flush)  # cancelled, as when the kernel does not accept it
            assert log.flushed_offset <= log.log_end_offset
    log.close()
