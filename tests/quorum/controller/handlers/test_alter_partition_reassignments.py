"""AlterPartitionReassignments on the controller."""

from tests.broker.handlers.test_alter_partition_reassignments import code_of, move
from tests.quorum.controller.handlers.controller_client import controller_client
from trimaran.wire.errors import ErrorCode


async def test_reassignment_begins_and_is_cancelled(tmp_path):
    async with controller_client(tmp_path) as one:
        await one.join(1, 2)
        await one.create("t", [1])
        assert await code_of(one, move([2])) == 0
        assert (one.partition().adding, one.partition().removing) == ((2,), (1,))
        assert await code_of(one, move(None)) == 0
        assert (one.partition().replicas, one.partition().adding) == ((1,), ())


async def test_replica_count_change_may_be_forbidden(tmp_path):
    """KIP-860."""
    async with controller_client(tmp_path) as one:
        await one.join(1, 2)
        await one.create("t", [1])
        held = move([1, 2]).replace(allow_replication_factor_change=False)
        assert await code_of(one, held) == ErrorCode.INVALID_REPLICATION_FACTOR
        assert one.partition().replicas == (1,)
