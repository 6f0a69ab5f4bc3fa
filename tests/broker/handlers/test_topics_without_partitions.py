"""A request of many topics without partitions takes a step for each topic, not only for each partition."""

import pytest

from tests.broker.calls import call
from tests.cluster.data_side import open_harness
from trimaran.broker.handlers.delete_records import delete_records
from trimaran.broker.handlers.describe_producers import describe_producers
from trimaran.broker.handlers.list_offsets import list_offsets
from trimaran.broker.handlers.offset_for_leader_epoch import offset_for_leader_epoch
from trimaran.wire.messages.delete_records import DeleteRecordsRequest, DeleteRecordsTopic
from trimaran.wire.messages.describe_producers import DescribeProducersRequest
from trimaran.wire.messages.describe_producers import TopicRequest as DescribedTopic
from trimaran.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsTopic
from trimaran.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderTopic,
)

TOPICS = 50
REQUESTS = {
    delete_records: DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=f"t{n}", partitions=[]) for n in range(TOPICS)],
        timeout_ms=1000,
    ),
    describe_producers: DescribeProducersRequest(
        topics=[DescribedTopic(name=f"t{n}", partition_indexes=[]) for n in range(TOPICS)]
    ),
    list_offsets: ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=f"t{n}", partitions=[]) for n in range(TOPICS)]
    ),
    offset_for_leader_epoch: OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic=f"t{n}", partitions=[]) for n in range(TOPICS)]
    ),
}


@pytest.mark.parametrize("handler", REQUESTS, ids=lambda handler: handler.__name__)
def test_each_topic_without_partitions_is_a_step(tmp_path, handler):
    harness, request = open_harness(tmp_path), REQUESTS[handler]
    steps = handler(request, harness.contexts.data, call(request, type(request).VERSIONS.high))
    taken, response = 0, None
    try:
        while True:
            taken += next(steps) is None
    except StopIteration as stop:
        response = stop.value
    finally:
        harness.directory.close(broker_epoch=None)
    assert len(response.topics) == TOPICS
    assert taken >= TOPICS
