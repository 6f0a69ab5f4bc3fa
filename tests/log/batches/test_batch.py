"""The view of a batch's header: stamping, boundaries of adjacent batches, and detection of every flipped bit."""

import pytest

from tests.log.helpers import batch_bytes, view_of
from trimaran.log.batches.batch import TimestampType, check_batch, iter_batches
from trimaran.log.batches.records import decode_records
from trimaran.wire.errors import KafkaError, RemoteProtocolError


def test_stamping_offset_and_epoch_leaves_the_crc_right():
    data = batch_bytes(3)
    view = view_of(data)
    view.stamp(1 << 40, 7)
    again = view_of(data)
    check_batch(again)
    assert (again.base_offset, again.leader_epoch, again.next_offset) == (1 << 40, 7, (1 << 40) + 3)


def test_append_time_replaces_all_timestamps():
    data = batch_bytes(3)
    view_of(data).stamp_append_time(5555)
    again = view_of(data)
    check_batch(again)
    assert again.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {r.timestamp_ms for r in decode_records(again)} == {5555}


def test_sequences_wrap_to_zero():
    view = view_of(batch_bytes(3, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2))
    assert view.last_sequence == 0


def test_adjacent_batches_are_split_partial_tail_is_reported():
    data = bytes(batch_bytes(2) + batch_bytes(1))
    assert [view.count for view in iter_batches(data)] == [2, 1]
    for cut in range(1, len(batch_bytes(1))):
        partial = data[:-cut]
        with pytest.raises(RemoteProtocolError):
            list(iter_batches(partial))
        assert [v.count for v in iter_batches(partial, allow_partial_tail=True)] == [2]


def check_all(data):
    for view in iter_batches(memoryview(data)):
        check_batch(view)


def test_flipped_bit_outside_stamped_fields_is_noticed():
    data = bytes(batch_bytes(2))
    for position in [*range(8, 12), *range(16, len(data))]:
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises((KafkaError, RemoteProtocolError)):
                check_all(damaged)
