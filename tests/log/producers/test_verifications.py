"""First batches that are permitted after a verification by a coordinator: limits, epochs, markers."""

import pytest

from tests.log.helpers import view_of
from tests.log.producers.test_state import batch, refused
from trimaran.log.producers.marker import EndMarker, build_end_marker
from trimaran.log.producers.state import ProducerState
from trimaran.wire.errors import ErrorCode

OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def state_asked(*batches, has_own_epoch=False):
    state = ProducerState()
    for view in batches:
        state.verifying(view, has_own_epoch=has_own_epoch)
    return state


def test_lowest_sequence_of_newest_epoch_comes_first():
    state = state_asked(batch(5), batch(2), batch(4))
    refused(state, batch(3), OUT_OF_ORDER)
    assert state.validate(batch(2)) is None
    state = state_asked(batch(2), batch(5, epoch=1), batch(1))
    refused(state, batch(6, epoch=1), OUT_OF_ORDER)
    assert state.validate(batch(5, epoch=1)) is None


def test_other_producers_are_not_affected():
    state = state_asked(batch(0), has_own_epoch=True)
    assert state.validate(batch(9, producer=8)) is None


COMMIT = build_end_marker(EndMarker(True, 0), producer_id=7, producer_epoch=0, timestamp_ms=5000)


@pytest.mark.parametrize(("appended", "following"), [(batch(5), 6), (view_of(COMMIT), 5)])
def test_append_ends_verification(appended, following):
    state = ProducerState()
    state.update(batch(0, 5))
    state.verifying(batch(3), has_own_epoch=False)
    refused(state, batch(5), OUT_OF_ORDER)
    state.update(appended)
    assert state.validate(batch(following)) is None


def test_oldest_verification_is_forgotten_above_bound():
    state = state_asked(*(batch(3, producer=i) for i in range(1_001)))
    assert state.validate(batch(4, producer=0)) is None
    refused(state, batch(4, producer=1), OUT_OF_ORDER)
