"""CreatePartitions on the controller."""

from tests.broker.handlers.test_create_partitions import growth
from tests.quorum.controller.handlers.controller_client import controller_client
from trimaran.wire.errors import ErrorCode


async def test_new_partitions_have_same_replica_count(tmp_path):
    async with controller_client(tmp_path) as one:
        await one.join(1, 2)
        await one.create("t", [1, 2])
        tried = await one.call(growth().replace(validate_only=True))
        assert (tried.results[0].error_code, len(one.image.topics.by_name["t"].partitions)) == (
            0,
            1,
        )
        assert (await one.call(growth())).results[0].error_code == 0
        partitions = one.image.topics.by_name["t"].partitions
        assert [sorted(p.replicas) for p in partitions.values()] == [[1, 2]] * 3


async def test_invalid_partition_counts_are_refused(tmp_path):
    async with controller_client(tmp_path) as one:
        await one.join(1)
        await one.create("t", [1])
        codes = [
            (await one.call(request)).results[0].error_code
            for request in (growth(count=1), growth("nowhere"))
        ]
        assert codes == [ErrorCode.INVALID_PARTITIONS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
