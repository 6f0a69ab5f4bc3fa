"""Windows of records over partitions: walks in both directions, and searches, see each record once."""

import random

import pytest

from tests.trimaran.client.test_reader import Broker, Log
from trimaran.client import record_window
from trimaran.client.record_window import RecordWindows, parse_positions, positions_text
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages import list_offsets

PLACES = [TopicPartition("t", index) for index in (2, 4, 7)]


class ManyAtOnce(Broker):
    """Returns offsets of all partitions of a leader at once, and keeps no count of fetches."""

    def call(self, leader, request, **options):
        self.fetches.clear()
        if not isinstance(request, list_offsets.ListOffsetsRequest):
            return super().call(leader, request, **options)
        return list_offsets.ListOffsetsResponse(
            topics=[
                list_offsets.ListOffsetsTopicResponse(
                    name="t",
                    partitions=[self._bound(each) for each in request.topics[0].partitions],
                )
            ]
        )

    def _bound(self, asked):
        log = self.logs[asked.partition_index]
        return list_offsets.ListOffsetsPartitionResponse(
            partition_index=asked.partition_index,
            offset=log.end if asked.timestamp == -1 else log.start,
            timestamp=-1,
        )


def drawn(seed):
    prng = random.Random(seed)
    logs = {place.partition: Log(prng) for place in PLACES}
    return prng, logs, RecordWindows(ManyAtOnce(logs), PLACES, is_committed=True)


def places_of(records):
    return [(where.partition, record.offset) for where, record in records]


def in_order(logs):
    """Returns all records by their times, which grow with offsets."""
    return sorted(
        ((index, offset) for index, log in logs.items() for offset in log.seen),
        key=lambda one: (one[1], one[0]),
    )


@pytest.mark.parametrize("seed", range(40))
def test_walks_in_both_directions_see_each_once(seed):
    prng, logs, windows = drawn(seed)
    limit = prng.choice([1, 2, 5, 40])
    found, window = [], windows.after(windows.starts, limit)
    while window.records:
        found += places_of(window.records)
        window = windows.after(window.after, limit)
    assert found == in_order(logs)
    assert dict(window.after) == windows.ends
    found, window = [], windows.before(windows.ends, limit)
    while window.records:
        found = places_of(window.records) + found
        window = windows.before(window.before, limit)
    assert found == in_order(logs)
    assert dict(window.before) == windows.starts


@pytest.mark.parametrize("seed", range(20))
def test_step_back_returns_the_previous_records(seed):
    prng, _, windows = drawn(seed)
    limit = prng.choice([1, 3])
    first = windows.after(windows.starts, limit)
    second = windows.after(first.after, limit)
    assert places_of(windows.before(second.before, limit).records) == places_of(first.records)


@pytest.mark.parametrize("seed", range(20))
def test_search_finds_each_in_steps(seed, monkeypatch):
    prng, logs, windows = drawn(seed)
    monkeypatch.setattr(record_window, "SCAN_BYTES_MAX", prng.choice([1, 200, 1 << 20]))
    limit = prng.choice([1, 3, 100])
    found, at, scanned, shares = [], windows.starts, 0, []
    for _ in range(200):
        step = windows.scan(at, limit, lambda record: record.offset % 2 == 0)
        assert len(step.records) <= limit
        found += places_of(step.records)
        at, scanned = step.after, scanned + step.scanned
        shares.append(windows.share_before(at))
        if step.is_over:
            break
    assert sorted(found) == sorted(place for place in in_order(logs) if place[1] % 2 == 0)
    assert scanned == len(in_order(logs))
    assert (shares, shares[-1]) == (sorted(shares), 1.0)


def test_bound_of_bytes_cuts_a_window(monkeypatch):
    monkeypatch.setattr(record_window, "READ_BYTES_MAX", 1)
    _, logs, windows = drawn(3)
    found, window = [], windows.after(windows.starts, 100)
    assert window.is_cut
    for _ in range(200):
        found += places_of(window.records)
        window = windows.after(window.after, 100)
    assert (dict(window.after), window.is_cut) == (windows.ends, False)
    assert sorted(found) == sorted(in_order(logs))


def test_positions_are_clipped_to_the_log():
    _, _, windows = drawn(5)
    far = dict.fromkeys(PLACES, 1 << 40)
    assert windows.clipped({}) == windows.starts
    assert windows.clipped(far) == windows.ends


def test_positions_are_formatted_and_parsed():
    positions = {TopicPartition("t", 0): 17, TopicPartition("t", 12): 5}
    assert positions_text(positions.items()) == "0:17,12:5"
    assert parse_positions("0:17,12:5", "t") == positions
    for text in ("", "0", "0:", ":1", "0:x", "-1:2", "0:1,", "0:" + "1" * 40):
        with pytest.raises(ValueError, match="is not PARTITION:OFFSET"):
            parse_positions(text, "t")
