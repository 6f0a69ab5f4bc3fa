"""Idempotence: duplicates, gaps, epochs, wrapping sequences; snapshots are in Kafka's format."""

import pytest

from tests.checks import check_each
from tests.log.helpers import batch_bytes, view_of
from trimaran.log.batches.records import rebuilt
from trimaran.log.producers.entry import Duplicate, ProducerEntry
from trimaran.log.producers.marker import EndMarker, build_end_marker
from trimaran.log.producers.snapshots import SnapshotInPieces, format_snapshot, parse_snapshot
from trimaran.log.producers.state import ProducerState
from trimaran.wire.errors import ErrorCode, KafkaError

# `00000000000000003000.snapshot` as Kafka 4.3 reads and writes it.
SNAPSHOT = bytes.fromhex(
    "0001ecd3e721000000010000000000000000000000000bb70000000000000bb7000000630000018bcfe5dd26ffffffff"
    "ffffffffffffffff"
)


def batch(sequence, count=1, *, epoch=0, producer=7, offset=0, timestamp_ms=1000):
    return view_of(
        batch_bytes(
            count,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
            base_offset=offset,
            timestamp_ms=timestamp_ms,
        )
    )


def state_with(*batches):
    state = ProducerState()
    for offset, view in enumerate(batches):
        view.base_offset = state.end_offset
        assert state.validate(view) is None, offset
        state.update(view)
    return state


def refused(state, view, code):
    with pytest.raises(KafkaError) as raised:
        state.validate(view)
    assert raised.value.code is code


def test_next_sequence_is_accepted_gap_is_refused():
    state = state_with(batch(0, 3), batch(3, 2))
    assert state.validate(batch(5)) is None
    for sequence in (6, 100, 4, 2**31 - 1):
        refused(state, batch(sequence), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_last_five_batches_are_recognized():
    state = state_with(*(batch(i) for i in range(8)))
    for sequence in range(3, 8):
        assert state.validate(batch(sequence)) == Duplicate(sequence, sequence, 1000)
    for sequence in range(3):
        refused(state, batch(sequence), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_duplicate_has_the_same_range():
    state = state_with(batch(0, 3))
    refused(state, batch(0, 2), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert state.validate(batch(0, 3)) == Duplicate(0, 2, 1002)


def test_older_epoch_is_fenced():
    state = state_with(batch(0, epoch=3))
    refused(state, batch(1, epoch=2), ErrorCode.INVALID_PRODUCER_EPOCH)
    refused(state, batch(1, epoch=4), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert state.validate(batch(0, epoch=4)) is None
    state.update(batch(0, epoch=4, offset=1))
    refused(state, batch(1, epoch=3), ErrorCode.INVALID_PRODUCER_EPOCH)
    assert state.validate(batch(0, epoch=4)) == Duplicate(1, 1, 1000)


def test_sequence_wraps_to_zero():
    state = state_with(batch(2**31 - 2, 2))
    assert state.validate(batch(0)) is None
    refused(state, batch(1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    crossing = state_with(batch(2**31 - 2, 4))
    assert crossing.validate(batch(2)) is None
    assert crossing.validate(batch(2**31 - 2, 4)) == Duplicate(0, 3, 1003)


def test_producer_zero_is_a_producer():
    state = state_with(batch(0, producer=0))
    assert state.validate(batch(1, producer=0)) is None
    refused(state, batch(2, producer=0), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_batches_without_sequence_are_no_duplicates():
    """Coordinators write batches without sequences."""
    state = state_with(batch(-1), batch(-1))
    assert state.validate(batch(-1)) is None
    refused(state, batch(-1, epoch=-1), ErrorCode.INVALID_PRODUCER_EPOCH)


def test_plain_batch_is_refused_in_open_transaction():
    state = ProducerState()
    state.update(in_transaction(7))
    refused(state, batch(1), ErrorCode.INVALID_TXN_STATE)
    view = batch(1)
    view.attributes |= 0x10
    assert state.validate(view) is None


@pytest.mark.parametrize("has_own_epoch", [False, True])
@pytest.mark.parametrize("is_known", [False, True])
def test_first_batch_after_verification_begins_epoch(is_known, has_own_epoch):
    """A marker may be all that is known of the producer; its own epoch begins at 0."""
    state = ProducerState()
    if is_known:
        state.update(
            view_of(
                build_end_marker(
                    EndMarker(True, 9), producer_id=7, producer_epoch=-1, timestamp_ms=1
                )
            )
        )
    state.verifying(batch(3), has_own_epoch=has_own_epoch)
    if has_own_epoch:
        with pytest.raises(KafkaError, match="begins with sequence 3, 0 is first"):
            state.validate(batch(3))
    else:
        assert state.validate(batch(3)) is None


def test_older_epoch_may_not_write():
    state = state_with(batch(0, epoch=3))
    state.check_epoch(8, 0)
    state.check_epoch(7, 3)
    state.check_epoch(7, 4)
    with pytest.raises(KafkaError, match="producer 7 has epoch 3 here, not 2") as raised:
        state.check_epoch(7, 2)
    assert raised.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_unknown_producer_may_begin_with_any_sequence():
    """The producer's history was deleted by retention, or expired (KIP-360)."""
    assert ProducerState().validate(batch(55)) is None


def test_batch_without_producer_is_not_tracked():
    state = state_with(view_of(batch_bytes(4)))
    assert (len(state), state.end_offset) == (0, 4)


def test_transaction_marker_ends_the_transaction():
    state = state_with(batch(0))
    view = batch(1, offset=1)
    view.attributes |= 0x10
    state.update(view)
    assert state.first_unstable_offset == 1
    marker = build_end_marker(
        EndMarker(True, 9), producer_id=7, producer_epoch=1, timestamp_ms=5000
    )
    view_of(marker).stamp(2, 0)
    state.update(view_of(marker))
    entry = state.get(7)
    assert (state.first_unstable_offset, entry.epoch, entry.coordinator_epoch) == (None, 1, 9)
    refused(state, batch(2, epoch=1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert state.validate(batch(0, epoch=1)) is None


def emptied_marker(epoch):
    view = view_of(
        build_end_marker(EndMarker(True, 9), producer_id=7, producer_epoch=epoch, timestamp_ms=5000)
    )
    return rebuilt(
        view,
        b"",
        attributes=view.attributes,
        base_timestamp=-1,
        max_timestamp=view.max_timestamp,
        count=0,
    )


def test_emptied_marker_gives_producer_epoch():
    state = state_with(batch(0), emptied_marker(3))
    entry = state.get(7)
    assert (entry.epoch, entry.coordinator_epoch, entry.last_timestamp) == (3, -1, 5000)
    refused(state, batch(0, epoch=2), ErrorCode.INVALID_PRODUCER_EPOCH)
    assert state.validate(batch(0, epoch=3)) is None
    assert state_with(emptied_marker(3)).get(7).epoch == 3


def test_emptied_marker_ends_no_transaction():
    """An emptied marker does not contain how the transaction ended."""
    state = state_with(batch(0))
    view = batch(1, offset=1)
    view.attributes |= 0x10
    state.update(view)
    assert state.aborted_by(emptied_marker(3)) is None
    state.update(emptied_marker(3))
    assert (state.first_unstable_offset, state.get(7).epoch) == (1, 0)


def test_longest_idle_producer_is_evicted():
    state = ProducerState()
    for producer in range(100_000):
        state.update(batch_of(producer))
    state.update(batch_of(0))
    state.update(batch_of(100_000))
    assert len(state) == 100_000
    assert state.get(1) is None
    assert state.get(0) is not None


_TEMPLATE = batch(0)


def batch_of(producer):
    _TEMPLATE.producer_id = producer
    return _TEMPLATE


def test_producers_in_transactions_are_checked_once_and_kept(monkeypatch):
    """This holds for any number of them, and while others are added."""
    monkeypatch.setattr("trimaran.log.producers.state.PRODUCERS_MAX", 1_000)
    state = ProducerState()
    for producer in range(1_000):
        state.update(in_transaction(producer))
    looked_at = []
    monkeypatch.setattr(
        ProducerEntry,
        "transaction_start",
        Watched(vars(ProducerEntry)["transaction_start"], looked_at),
    )
    most = 0
    for producer in range(1_000, 1_100):
        looked_at.clear()
        state.update(in_transaction(producer))
        most = max(most, len(looked_at))
    assert most < 150
    assert len(state) == 1_100
    state.update(batch_of(2_000))
    for producer in range(3_000, 3_020):
        state.update(in_transaction(producer))
    assert state.get(2_000) is None
    assert all(state.get(number) for number in range(1_100))


class Watched:
    """A slot whose reads are counted."""

    def __init__(self, slot, reads):
        self.slot, self.reads = slot, reads

    def __get__(self, entry, owner=None):
        self.reads.append(entry)
        return self.slot.__get__(entry, owner)

    def __set__(self, entry, value):
        self.slot.__set__(entry, value)


def in_transaction(producer):
    view = view_of(batch_bytes(1, producer_id=producer, base_sequence=0, is_transactional=True))
    assert view.is_transactional
    return view


def test_piecewise_snapshot_shows_state_at_its_start():
    """Producers write, expire and appear meanwhile."""
    state, same = (
        state_with(*(batch(0, producer=number) for number in range(9))) for _ in range(2)
    )
    state.update(batch(1, producer=3, offset=9))
    same.update(batch(1, producer=3, offset=9))
    pieces = SnapshotInPieces(state)
    state.before_change = pieces.note
    pieces.go_on(2)
    for producer in (0, 5, 3, 77):
        state.update(batch(7, producer=producer, epoch=1, offset=10))
    state.remove_expired(10_000_000, 1)
    state.update(batch(0, producer=6, offset=20))
    assert not pieces.is_complete
    pieces.go_on(100)
    assert pieces.is_complete
    assert entries(parse_snapshot(pieces.data(), pieces.end_offset)) == entries(
        parse_snapshot(format_snapshot(same), same.end_offset)
    )
    state.update(batch(1, producer=6, offset=21))
    assert len(state) == 1


def entries(state):
    return state.end_offset, sorted(
        (producer_id, entry.epoch, tuple(entry.batches), entry.last_timestamp)
        for producer_id, entry in state.entries()
    )


def test_idle_producer_expires():
    state = state_with(
        batch(0, producer=1, timestamp_ms=1000), batch(0, producer=2, timestamp_ms=5000)
    )
    state.remove_expired(6000, 5000)
    assert (state.get(1), len(state)) == (None, 1)


def test_snapshot_has_kafkas_format():
    state = parse_snapshot(SNAPSHOT, 3000)
    entry = state.get(0)
    assert (entry.epoch, entry.last_timestamp) == (0, 1700000029990)
    assert entry.batches[0] == (2900, 2999, 2900, 2999, 1700000029990)
    assert format_snapshot(state) == SNAPSHOT


def test_every_damaged_byte_of_a_snapshot_is_noticed():
    check_each(range(len(SNAPSHOT)), damage_is_noticed_at)


def damage_is_noticed_at(position):
    damaged = bytearray(SNAPSHOT)
    damaged[position] ^= 1
    with pytest.raises(ValueError, match="snapshot"):
        parse_snapshot(bytes(damaged), 3000)
    with pytest.raises(ValueError, match="snapshot"):
        parse_snapshot(SNAPSHOT[:position], 3000)
