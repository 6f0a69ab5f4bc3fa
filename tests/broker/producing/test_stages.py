"""One list of partitions goes through the stages of Produce; an error ends the way of its own partition only."""

import pytest

from broker.producing.append import append
from broker.producing.authorize import authorize
from broker.producing.resolve import resolve
from broker.producing.validate import validate
from broker.producing.verify import verify
from node.runtime.clock import now_ms
from tests.broker.batches import batch
from tests.broker.calls import through_wire
from tests.broker.harness import open_harness, partition, topic, topic_id
from wire.errors import ErrorCode
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

VERSION = 13
ACKS_LEADER = 1


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition(), partition()), topic("secret", partition()))
    return harness


def resolved(harness, *named):
    """`named`: a topic and the records of its partitions, each."""
    topics = [
        TopicProduceData(
            topic_id=topic_id(name),
            partition_data=[
                PartitionProduceData(index=i, records=one) for i, one in enumerate(records)
            ],
        )
        for name, *records in named
    ]
    message = ProduceRequest(acks=ACKS_LEADER, timeout_ms=0, topic_data=topics)
    return resolve(through_wire(message, VERSION), harness.partitions)


def go_through(harness, appends, may_write=lambda _topic: True):
    authorize(appends, may_write)
    validate(appends, harness.partitions, now_ms=now_ms(), version=VERSION)
    verify(appends)
    append(appends, ACKS_LEADER, harness.directories.storage_failed)


def outcomes(response):
    return [
        [
            (one.index, ErrorCode.of(one.error_code).name, one.base_offset)
            for one in found.partition_responses
        ]
        for found in response.responses
    ]


async def test_every_partition_is_answered_where_the_request_names_it(harness):
    response, appends = resolved(
        harness, ("t", batch(b"a"), b"no batch"), ("nowhere", batch(b"b")), ("secret", batch(b"c"))
    )
    assert [(one.topic, one.index) for one in appends] == [
        ("t", 0),
        ("t", 1),
        ("", 0),
        ("secret", 0),
    ]
    go_through(harness, appends)
    assert outcomes(response) == [
        [(0, "NONE", 0), (1, "INVALID_RECORD", -1)],
        [(0, "UNKNOWN_TOPIC_ID", -1)],
        [(0, "NONE", 0)],
    ]


async def test_who_may_not_write_learns_nothing_and_opens_nothing(harness):
    """Neither whether the partition is there, nor whether the records are sound; and no log is made for it."""
    response, appends = resolved(harness, ("secret", b"no batch", batch(b"b")), ("t", batch(b"c")))
    go_through(harness, appends, lambda name: name != "secret")
    denied = "TOPIC_AUTHORIZATION_FAILED"
    assert outcomes(response) == [[(0, denied, -1), (1, denied, -1)], [(0, "NONE", 0)]]
    assert harness.partitions.find("secret", 0).open_log is None


async def test_a_transactional_batch_is_refused_alone(harness):
    transactional = batch(
        b"a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    response, appends = resolved(harness, ("t", transactional, batch(b"b")))
    go_through(harness, appends)
    assert outcomes(response) == [[(0, "INVALID_TXN_STATE", -1), (1, "NONE", 0)]]
    assert harness.leader("t", 0).log.log_end_offset == 0


async def test_what_waits_keeps_no_records(harness):
    _, [one] = resolved(harness, ("t", batch(b"a")))
    go_through(harness, [one])
    one.release()
    assert (len(one.records), one.batches, one.required_offset) == (0, (), 1)
