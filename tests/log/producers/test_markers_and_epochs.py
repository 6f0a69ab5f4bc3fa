"""Markers and verifications at each bound: the epochs that a coordinator may write, and the end of a confirmation."""

from __future__ import annotations

import pytest

from tests.log.helpers import view_of
from tests.log.producers.test_state import batch
from trimaran.log.producers.marker import EndMarker, build_end_marker
from trimaran.log.producers.snapshots import format_snapshot, parse_snapshot
from trimaran.log.producers.state import EPOCH_MAX, ProducerState
from trimaran.wire.errors import ErrorCode, KafkaError

E = ErrorCode


def marker(producer_epoch, coordinator_epoch=3, *, offset=0, producer_id=7):
    view = view_of(
        build_end_marker(
            EndMarker(True, coordinator_epoch),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            timestamp_ms=5000,
        )
    )
    view.base_offset = offset
    return view


def state_in(epoch, *, is_open):
    """Returns a producer whose last marker had coordinator epoch 3."""
    state = ProducerState()
    state.update(marker(epoch))
    if is_open:
        view = batch(0, epoch=epoch, offset=1)
        view.attributes |= 0x10
        assert view.is_transactional
        state.update(view)
    return state


def checked(state, epoch, version, coordinator_epoch=3, producer_id=7):
    try:
        state.check_marker(EndMarker(True, coordinator_epoch), producer_id, epoch, version)
    except KafkaError as error:
        return error.code
    return None


OLD, FENCED = E.INVALID_PRODUCER_EPOCH, E.TRANSACTION_COORDINATOR_FENCED


@pytest.mark.parametrize(
    ("version", "is_open", "codes"),
    [
        (0, True, [OLD, None, None]),
        (1, True, [OLD, None, None]),
        (2, True, [OLD, OLD, None]),
        (3, True, [OLD, OLD, None]),
        (1, False, [OLD, None, None]),
        (2, False, [OLD, None, None]),
    ],
)
def test_marker_has_the_epoch_of_its_version(version, is_open, codes):
    """From version 2 on a higher epoch ends a transaction, and an equal epoch is a retry."""
    state = state_in(5, is_open=is_open)
    assert [checked(state, epoch, version) for epoch in (4, 5, 6)] == codes
    assert checked(state, 0, version, producer_id=8) is None


@pytest.mark.parametrize("is_open", [False, True])
def test_transaction_of_last_epoch_keeps_its_epoch(is_open):
    state = state_in(EPOCH_MAX, is_open=is_open)
    assert [checked(state, epoch, 2) for epoch in (EPOCH_MAX - 1, EPOCH_MAX)] == [OLD, None]


@pytest.mark.parametrize(("coordinator_epoch", "code"), [(2, FENCED), (3, None), (4, None)])
def test_marker_of_older_coordinator_is_fenced(coordinator_epoch, code):
    state = state_in(5, is_open=True)
    assert checked(state, 5, 1, coordinator_epoch) is code
    assert checked(state, 4, 1, coordinator_epoch) is OLD


@pytest.mark.parametrize(("since", "expected"), [(19, True), (20, True), (21, False)])
def test_marker_after_offset_voids_verification(since, expected):
    state = state_in(5, is_open=True)
    assert state.ended_since(8, since) is False
    state.update(marker(5, offset=20))
    assert state.ended_since(7, since) is expected
    assert state.ended_since(8, since) is False
    reloaded = parse_snapshot(format_snapshot(state), state.end_offset)
    assert reloaded.ended_since(7, 0) is False, "snapshots do not contain it"


@pytest.mark.parametrize("has_own_epoch", [False, True])
@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize(("sequence", "above"), [(0, 0), (1, 1), (4, 1), (5, 2)])
def test_first_sequence_is_zero_only_for_new_epochs(sequence, above, is_known, has_own_epoch):
    """`above` counts the bounds that the sequence exceeds: 0, and the verified 4."""
    state = ProducerState()
    if is_known:
        state.update(batch(0, 4))
    state.verifying(batch(4), has_own_epoch=has_own_epoch)
    first = 0 if has_own_epoch and not is_known else 4
    is_refused = sequence > first
    assert is_refused == (above == 2 or (above == 1 and first == 0))
    verifications = state._verifications
    if is_refused:
        with pytest.raises(KafkaError, match=f"{first} is first") as caught:
            verifications.check(batch(sequence), is_new=not is_known)
        assert caught.value.code is E.OUT_OF_ORDER_SEQUENCE_NUMBER
    else:
        verifications.check(batch(sequence), is_new=not is_known)
