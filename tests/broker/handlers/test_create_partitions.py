"""CreatePartitions through a broker."""

from tests.broker.handlers.broker_client import broker_client, refusal_by_controller
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic


def growth(name="t", count=3):
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=False)


async def test_topic_grows_by_partitions(tmp_path):
    async with broker_client(tmp_path) as one:
        await one.create("t")
        assert [r.error_code for r in (await one.call(growth())).results] == [0]
        await one.seen(lambda image: len(image.topics.by_name["t"].partitions) == 3)


async def test_topic_cannot_shrink_or_appear(tmp_path):
    async with broker_client(tmp_path) as one:
        await one.create("t", partitions=3)
        codes = [
            (await one.call(request)).results[0].error_code
            for request in (growth(count=2), growth(count=3), growth("nowhere"))
        ]
        assert codes == [
            ErrorCode.INVALID_PARTITIONS,
            ErrorCode.INVALID_PARTITIONS,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]


async def test_refusal_is_returned_for_every_topic(tmp_path):
    (result,) = (await refusal_by_controller(tmp_path, growth(), 3)).results
    assert (result.name, result.error_code) == ("t", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
