"""Every client produces in every way; another client reads the records."""

import pytest

from tests.clients.records import CODECS, Place, Sent
from tests.cluster.processes import until

WHAT = "records"

PLAIN = [Sent(i % 2, b"value %d" % i * 20, b"key %d" % i) for i in range(40)]
ODD = [
    Sent(0, b"no key"),
    Sent(0, None, b"a tombstone"),
    Sent(0, b"", b""),
    Sent(1, b"headers", b"k", (("a", b"1"), ("b", b"2"), ("a", b""), ("ü", bytes(range(256))))),
]
NULL_HEADER = Sent(1, b"null header", None, (("a", None),))


def contents(records):
    """Returns the values that must be equal on both sides, by partition, in order."""
    return [
        [(r.value, r.key, tuple(r.headers)) for r in records if r.partition == partition]
        for partition in (0, 1)
    ]


def other_than(client, clients):
    """Returns the next client in the circle, so that no client checks its own records."""
    names = list(clients)
    return clients[names[(names.index(client.name) + 1) % len(names)]]


@pytest.mark.parametrize("codec", CODECS)
def test_each_codec_is_read_by_every_client(client, judge, clients, cluster, codec):
    topic = f"codec-{codec}-{client.name}"
    if topic not in judge.topics():
        client.create_topic(topic, 2, {})
        cluster.wait_for_topic(topic)
        places = client.produce(topic, PLAIN, codec=codec)
        assert sorted(places) == [Place(p, o) for p in (0, 1) for o in range(20)]
    found = judge.read(topic, {0: 0, 1: 0}, len(PLAIN))
    assert contents(found) == contents(PLAIN)


@pytest.mark.parametrize("acks", [1, "all"])
def test_acknowledged_records_are_at_their_offsets(client, clients, topic, acks):
    places = client.produce(topic, PLAIN, acks=acks)
    found = other_than(client, clients).read(topic, {0: 0, 1: 0}, len(PLAIN))
    assert {(r.partition, r.offset): r.value for r in found} == {
        place: sent.value for place, sent in zip(places, PLAIN, strict=True)
    }


def test_unacknowledged_records_arrive_too(client, clients, topic):
    client.produce(topic, PLAIN, acks=0)
    found = other_than(client, clients).read(topic, {0: 0, 1: 0}, len(PLAIN))
    assert contents(found) == contents(PLAIN)


def test_idempotent_producers_get_ids_of_ours(client, clients, topic, cluster):
    client.produce(topic, PLAIN, idempotent=True)
    client.produce(topic, PLAIN, idempotent=True)
    found = other_than(client, clients).read(topic, {0: 0, 1: 0}, 2 * len(PLAIN))
    assert contents(found) == contents(PLAIN + PLAIN)
    producers = {batch.producer_id for p in (0, 1) for batch in cluster.batches(topic, p)}
    assert len(producers) == 2
    assert -1 not in producers


def test_null_and_empty_fields_are_preserved(client, judge, topic):
    records = ODD + [NULL_HEADER] * client.produces_null_headers
    client.produce(topic, records)
    assert contents(judge.read(topic, {0: 0, 1: 0}, len(records))) == contents(records)


def test_client_starting_at_offset_gets_that_record_first(client, clients, topic):
    other_than(client, clients).produce(topic, PLAIN)
    found = client.read(topic, {1: 7}, 13)
    assert [r.offset for r in found] == list(range(7, 20))


def test_missing_topic_is_created_by_producing(client, clients, cluster):
    name = f"on-demand-{client.name}"
    client.produce(name, [Sent(0, b"first")])
    (found,) = other_than(client, clients).read(name, {0: 0}, 1)
    assert found.value == b"first"
    until(
        lambda: all(len(p["isr"]) == 3 for p in cluster.partitions(name).values()), "three in sync"
    )
