"""Two brokers over real connections: each reaches the states that the other coordinates, also after a restart."""

from __future__ import annotations

from tests.broker.handlers.broker_client import broker_client
from tests.broker.share_state.driver import ACKNOWLEDGED
from trimaran.broker.share_state.states import ShareState, ShareSummary, StateBatch
from trimaran.wire.identity import SharePartitionKey

SETTINGS = {
    "share_coordinator_state_topic_num_partitions": "4",
    "share_coordinator_state_topic_replication_factor": "2",
    "share_coordinator_state_topic_min_isr": "1",
}
ACKED = StateBatch(0, 9, ACKNOWLEDGED, 1)


async def test_states_are_reached_from_each_broker(tmp_path):
    async with broker_client(tmp_path, brokers=2, **SETTINGS) as one:
        await one.create("t", partitions=8)
        topic_id = one.image.topics.by_name["t"].id
        keys = [SharePartitionKey("g", topic_id, index) for index in range(8)]
        first, second = (broker.contexts.groups for broker in one.cluster.brokers.values())
        for key in keys:
            await first.share_states.initialize(key, 1, 0)
        leaders = set()
        for number, key in enumerate(keys):
            index = first.shares.partition_of(key)
            states = first.metadata.image.topics.by_name["__share_group_state"].partitions
            leaders.add(states[index].leader)
            assert await second.share_states.read(key, 5) == ShareState(
                ShareSummary(1, 5, 0, None), ()
            )
            await second.share_states.write(key, ShareSummary(1, 5, 0, number), [ACKED])
            assert await first.share_states.summary(key, 5) == ShareSummary(1, 5, 0, number)
        assert leaders == set(one.cluster.brokers)
        await one.delete("t")
        await one.cluster.seen(lambda image: "t" not in image.topics.by_name)
