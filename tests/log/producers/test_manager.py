"""The producer state of a log is a function of its content, however it is opened, truncated or reopened."""

import random

import pytest

from tests.log.helpers import append, batch_bytes, fill, open_log, view_of
from trimaran.log.config import LogConfig
from trimaran.log.producers.entry import Duplicate
from trimaran.log.producers.snapshots import parse_snapshot
from trimaran.log.segments.segment import SNAPSHOT_SUFFIX, file_name
from trimaran.wire.errors import KafkaError


def facts(state):
    return {
        producer: (entry.epoch, entry.batches[-1] if entry.batches else None, entry.last_timestamp)
        for producer, entry in state._producers.items()
    }


@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_producer_state_is_a_function_of_log(tmp_path, monkeypatch, seed, in_pieces):
    """I3: this holds with or without its snapshots."""
    if in_pieces:
        monkeypatch.setattr("trimaran.log.producers.manager.AT_ONCE_MAX", 0)
        monkeypatch.setattr("trimaran.log.producers.manager.PIECE", 1)
    r = random.Random(seed)
    log = open_log(tmp_path / "t-0")
    next_sequence = {}
    for _ in range(120):
        producer, count = r.randint(0, 4), r.randint(1, 3)
        sequence = next_sequence.get(producer, 0)
        append(log, count, producer_id=producer, producer_epoch=0, base_sequence=sequence)
        next_sequence[producer] = sequence + count
    live = facts(log.producers)
    log.close(clean=r.random() < 0.5)
    snapshots = sorted(log.directory.glob("*.snapshot"))
    for path in snapshots:
        what = r.choice(["keep", "damage", "remove"])
        if what == "damage":
            path.write_bytes(path.read_bytes()[:-1])
        elif what == "remove":
            path.unlink()
    log = open_log(log.directory)
    assert facts(log.producers) == live
    offset = r.randint(1, log.log_end_offset)
    log.truncate_to(offset)
    whole = facts(log.producers)
    for path in log.directory.glob("*.snapshot"):
        path.unlink()
    log._producers.state = None
    assert facts(log.producers) == whole
    assert all(
        kept is None or kept.last_offset < log.log_end_offset for _, kept, _ in whole.values()
    )


def test_snapshot_of_many_producers_absorbs_following_appends(tmp_path, monkeypatch):
    monkeypatch.setattr("trimaran.log.producers.manager.AT_ONCE_MAX", 3)
    monkeypatch.setattr("trimaran.log.producers.manager.PIECE", 2)
    log = open_log(tmp_path / "t-0", LogConfig())
    for producer in range(5):
        append(log, 1, producer_id=producer, producer_epoch=0, base_sequence=0)
    log.roll(0)
    path = log.directory / file_name(5, SNAPSHOT_SUFFIX)
    for sequence in range(1, 3):
        append(log, 1, producer_id=0, producer_epoch=0, base_sequence=sequence)
        assert not path.exists()
    append(log, 1)
    state = parse_snapshot(path.read_bytes(), 5)
    assert facts(state).keys() == set(range(5))
    assert state.get(0).batches[-1].last_sequence == 0


def test_piecewise_snapshot_keeps_state_despite_another_written(tmp_path, monkeypatch):
    monkeypatch.setattr("trimaran.log.producers.manager.AT_ONCE_MAX", 3)
    monkeypatch.setattr("trimaran.log.producers.manager.PIECE", 1)
    log = open_log(tmp_path / "t-0", LogConfig())
    for producer in range(5):
        time = 1_000 if producer < 3 else 10_000
        append(
            log,
            1,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            timestamp_ms=time,
        )
    log.roll(0)
    log.remove_expired_producers(1_000 + log.config.producer_id_expiration_ms)
    append(log, 1)
    log.roll(0)
    append(log, 1, producer_id=4, producer_epoch=0, base_sequence=1, timestamp_ms=10_000)
    for _ in range(4):
        append(log, 1)
    state = parse_snapshot((log.directory / file_name(5, SNAPSHOT_SUFFIX)).read_bytes(), 5)
    assert facts(state).keys() == set(range(5))
    assert state.get(4).batches[-1].last_sequence == 0


def test_failed_append_leaves_state_unchanged(tmp_path):
    log = fill(open_log(tmp_path / "t-0"), 1)
    append(log, 1, producer_id=7, producer_epoch=0, base_sequence=0)
    before = facts(log.producers)
    log.health.fail("test")
    with pytest.raises(KafkaError):
        append(log, 1, producer_id=7, producer_epoch=0, base_sequence=1)
    assert facts(log.producers) == before


def test_log_forgets_expired_producers(tmp_path):
    log = open_log(tmp_path / "t-0")
    append(log, 1, producer_id=7, producer_epoch=0, base_sequence=0, timestamp_ms=1000)
    log.remove_expired_producers(1000 + log.config.producer_id_expiration_ms - 1)
    assert len(log.producers) == 1
    log.remove_expired_producers(1000 + log.config.producer_id_expiration_ms)
    assert len(log.producers) == 0


def test_emptied_log_has_no_producers(tmp_path):
    """A follower that restarts at a higher offset has not seen how the transactions in its snapshots ended."""
    log = open_log(tmp_path / "t-0")
    append(log, 3, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.roll(0)
    fill(log, 2)
    assert log.last_stable_offset(log.log_end_offset) == 0
    log.truncate_fully_and_start_at(500)
    fill(log, 2)
    for _ in range(2):
        assert facts(log.producers).keys() == set()
        assert log.last_stable_offset(log.log_end_offset) == log.log_end_offset
        log.close()
        log = open_log(tmp_path / "t-0", clean=True)


def test_producers_of_deleted_records_are_known_without_lookup(tmp_path):
    """I1: a leader that has just started, and deletes records, recognizes a batch that is sent again."""
    log = open_log(tmp_path / "t-0")
    append(log, 3, producer_id=7, producer_epoch=0, base_sequence=0)
    log.flush()
    log.close(clean=False)
    log = open_log(tmp_path / "t-0")
    assert not log.knows_producers
    log.delete_records_before(3)
    again = batch_bytes(3, producer_id=7, producer_epoch=0, base_sequence=0)
    assert log.producers.validate(view_of(again)) == Duplicate(0, 2, 1002)


def test_producers_of_another_history_are_forgotten_permanently(tmp_path):
    log = open_log(tmp_path / "t-0")
    append(log, 3, producer_id=7, producer_epoch=0, base_sequence=0)
    log.roll(0)
    append(log, 3, producer_id=8, producer_epoch=0, base_sequence=0)
    log.delete_records_before(6)
    log._producers.truncate(-1)
    assert facts(log.producers).keys() == set()
    log.close()
    log = open_log(tmp_path / "t-0", clean=True, log_start_offset=6)
    assert facts(log.producers).keys() == set()
