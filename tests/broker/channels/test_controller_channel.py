"""The broker's connection to a controller that violates the protocol."""

import pytest
import trio

from tests.wire.transport.support import Toy, heartbeat, open_server
from trimaran.broker.channels.controller_channel import ControllerChannel
from trimaran.node.runtime.latest import Latest
from trimaran.quorum.raft.listener import LeaderAndEpoch
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from trimaran.wire.messages.heartbeat import HeartbeatRequest


async def test_request_waits_for_controller_that_supports_it():
    """During an upgrade the controller may run the oldest release in the cluster, and the next leader may support the
    request. The broker continues.
    """
    async with open_server(heartbeat, context=Toy()) as server, trio.open_nursery() as nursery:
        channel = ControllerChannel(
            Latest(LeaderAndEpoch(1, 1)),
            lambda _node_id: server.addresses["PLAINTEXT"],
            lambda _node_id: None,
            "test",
        )
        nursery.start_soon(channel.run)
        asked = AllocateProducerIdsRequest(broker_id=1, broker_epoch=1)
        with pytest.raises(KafkaError, match="does not serve AllocateProducerIds") as refused:
            await channel.call(asked, timeout=0.3)
        assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        assert await channel.call(beat, timeout=5)
        nursery.cancel_scope.cancel()
