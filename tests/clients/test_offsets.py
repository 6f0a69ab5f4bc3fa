"""ListOffsets with every client: start and end offsets, and the first offset at or after a time."""

from tests.clients.records import Sent

WHAT = "offsets"

BASE_MS = 1_700_000_000_000


def test_offsets_are_found_by_timestamp(client, clients, topic):
    for second in range(5):
        sent = [Sent(0, b"%d" % i, timestamp_ms=BASE_MS + 1000 * second + i) for i in range(10)]
        clients["kafka-python"].produce(topic, sent)
    assert client.offset_at(topic, 0, BASE_MS) == 0
    assert client.offset_at(topic, 0, BASE_MS - 1) == 0
    assert client.offset_at(topic, 0, BASE_MS + 2004) == 24
    assert client.offset_at(topic, 0, BASE_MS + 2010) == 30
    assert client.offset_at(topic, 0, BASE_MS + 4010) is None
    assert client.offset_at(topic, 1, BASE_MS) is None


def test_timestamps_are_stored_unchanged(client, judge, topic):
    client.produce(topic, [Sent(0, b"then", timestamp_ms=BASE_MS)])
    (found,) = judge.read(topic, {0: 0}, 1)
    assert found.timestamp_ms == BASE_MS


def test_partition_has_start_and_end_offset(client, topic):
    assert client.ends(topic, 0) == (0, 0)
    client.produce(topic, [Sent(0, b"%d" % i) for i in range(11)])
    assert client.ends(topic, 0) == (0, 11)
