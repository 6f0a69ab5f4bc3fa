"""The producer state of a log is a function of its content, however it is opened, truncated or reopened."""

import random
from types import SimpleNamespace

import pytest

from tests.log.helpers import append, batch_bytes, fill, open_log, view_of
from trimaran.log.config import LogConfig
from trimaran.log.disk.files import REAL_FILES, Files
from trimaran.log.producers.entry import Duplicate, ProducerEntry
from trimaran.log.producers.manager import ProducerStateManager
from trimaran.log.producers.snapshots import parse_snapshot
from trimaran.log.producers.state import ProducerState
from trimaran.log.segments.recovery import list_snapshots
from trimaran.log.segments.segment import SNAPSHOT_SUFFIX, file_name
from trimaran.log.steps import at_once
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


# -- the manager alone


@pytest.fixture
def manager(tmp_path):
    """Returns the manager of a log without segments, which ends at offset 7."""
    return ProducerStateManager(tmp_path, SimpleNamespace(all=[]), REAL_FILES)


def state_of(count, end_offset=7):
    entries = [(producer_id, ProducerEntry(0)) for producer_id in range(count)]
    return ProducerState.of_entries(end_offset, entries)


def snapshots(manager):
    return list_snapshots(manager._directory, REAL_FILES)


@pytest.mark.parametrize(
    ("count", "pieces"), [(1, 0), (5_000, 0), (5_001, 3), (6_000, 3), (6_001, 4)]
)
def test_large_snapshot_is_made_in_pieces(manager, count, pieces):
    manager.state = state = state_of(count)
    manager.begin_snapshot()
    for _ in range(pieces):
        assert (snapshots(manager), manager.unfinished is None) == ([], False)
        assert state.before_change == manager.unfinished.note
        manager.go_on()
    assert (snapshots(manager), manager.unfinished, state.before_change) == ([7], None, None)
    manager.go_on()
    path = manager._directory / file_name(7, SNAPSHOT_SUFFIX)
    assert facts(parse_snapshot(path.read_bytes(), 7)) == facts(state)


def test_begun_snapshot_is_not_begun_again(manager):
    manager.state = state_of(5_001)
    manager.begin_snapshot()
    begun = manager.unfinished
    manager.state.end_offset = 8
    manager.begin_snapshot()
    assert manager.unfinished is begun
    manager.forget()
    manager.go_on()
    assert (manager.state, manager.unfinished, snapshots(manager)) == (None, None, [])
    manager.unfinished = begun
    manager.go_on()
    assert (len(begun._left), snapshots(manager)) == (5_001, [])


def test_manager_without_state_writes_nothing(manager):
    manager.begin_snapshot()
    manager.take_snapshot(durable=True)
    manager.go_on()
    assert (snapshots(manager), manager.unfinished) == ([], None)
    assert manager.remove_expired(10**9, 1) == 0


def test_state_is_forgotten_although_removal_fails(manager):
    manager.state = state_of(1)
    manager.take_snapshot()

    def refuse(_path):
        raise OSError("refused")

    manager._files = Files()
    manager._files.unlink = refuse
    with pytest.raises(OSError, match="refused"):
        manager.truncate(6)
    assert manager.state is None


def test_loading_keeps_a_state_built_meanwhile(manager):
    first = at_once(manager.load(3, 9))
    assert (manager.state, first.end_offset, len(first)) == (first, 9, 0)
    manager.state = None
    steps = manager.load(3, 9)
    manager.state = other = state_of(2)
    assert at_once(steps) is manager.state is other


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda manager: manager.truncate(20), [10, 20]),
        (lambda manager: manager.drop_damaged(), []),
        (lambda manager: manager.remove_snapshots_below(21), [20, 30]),
        (
            lambda manager: manager.remove_snapshots_of(
                [SimpleNamespace(base_offset=offset) for offset in (10, 15, 30)]
            ),
            [20],
        ),
    ],
)
def test_each_removal_leaves_other_snapshots(manager, change, left):
    cut = []
    for name in ("a", "b"):
        index = SimpleNamespace(keep_sound=lambda name=name: cut.append(name))
        manager._segments.all.append(SimpleNamespace(transaction_index=index))
    for end_offset in (10, 20, 30):
        manager.state = state_of(1, end_offset)
        manager.take_snapshot()
    change(manager)
    assert snapshots(manager) == left
    assert cut == (["a", "b"] if left == [] else [])
    assert (manager.state is None) is (left in ([], [10, 20]))
