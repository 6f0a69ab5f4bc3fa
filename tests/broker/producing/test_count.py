"""Produce counters of each topic: requests, failures, bytes and messages."""

from tests.broker.batches import batch
from trimaran.broker.partitions.traffic import TopicTraffic, Traffic
from trimaran.broker.producing.append import append
from trimaran.broker.producing.partition_append import PartitionAppend
from trimaran.log.batches.batch import iter_batches
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.produce import PartitionProduceResponse


def appended(topic, *values):
    data = batch(*values)
    one = PartitionAppend(
        TopicPartition(topic, 0), None, data, PartitionProduceResponse(index=0, base_offset=0)
    )
    one.batches = list(iter_batches(data))
    return one


def refused(topic, code):
    one = appended(topic, b"refused")
    one.refuse(code)
    return one


def count(parts, traffic):
    assert not any(append(parts, -1, traffic))


def counted(traffic, topic):
    counters = traffic.of(topic)
    values = {name: getattr(counters, name) for name in TopicTraffic.__slots__}
    return {name: value for name, value in values.items() if value}


def test_each_topic_has_its_own_counts():
    traffic = Traffic()
    traffic.of("a"), traffic.of("b")
    first, second, third = appended("a", b"1", b"2"), appended("a", b"3"), appended("b", b"4")
    count([first, second, third], traffic)
    assert counted(traffic, "a") == {
        "produces": 2,
        "messages_in": 3,
        "bytes_in": len(first.records) + len(second.records),
    }
    assert counted(traffic, "b") == {
        "produces": 1,
        "messages_in": 1,
        "bytes_in": len(third.records),
    }


def test_refused_produces_and_rejected_bytes_are_counted():
    traffic = Traffic()
    traffic.of("a")
    codes = (
        ErrorCode.INVALID_RECORD,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
    )
    some = [refused("a", code) for code in codes]
    count(some, traffic)
    assert counted(traffic, "a") == {
        "produces": 3,
        "failed_produces": 3,
        "bytes_rejected": sum(len(append.records) for append in some[1:]),
    }


def test_topic_without_local_replica_is_not_counted():
    traffic = Traffic()
    traffic.of("a")
    count(
        [refused("no_such_topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), appended("a", b"1")],
        traffic,
    )
    assert traffic.find("no_such_topic") is None
    assert counted(traffic, "a")["produces"] == 1
