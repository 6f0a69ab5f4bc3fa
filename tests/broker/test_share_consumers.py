"""Share consumers against a real broker, over the wire: records delivered, acknowledged, and stored."""

from __future__ import annotations

import trio

from tests.broker.batches import batch
from tests.broker.handlers.broker_client import broker_client
from tests.cluster.in_process import connected_to
from trimaran.wire.identity import SharePartitionKey, StateEpoch
from trimaran.wire.messages import produce, share_acknowledge, share_fetch
from trimaran.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from trimaran.wire.messages.produce import ProduceRequest
from trimaran.wire.messages.share_acknowledge import ShareAcknowledgeRequest
from trimaran.wire.messages.share_fetch import ShareFetchRequest

GROUP, GROUP_RESOURCE, SET = "g", 32, 0
SINGLE = {
    "offsets_topic_num_partitions": 1,
    "offsets_topic_replication_factor": 1,
    "share_coordinator_state_topic_num_partitions": 1,
    "share_coordinator_state_topic_replication_factor": 1,
    "share_coordinator_state_topic_min_isr": 1,
}
SECONDS = 60.0


class ShareConsumer:
    """A member of group `g` that reads one topic."""

    def __init__(self, connection, member_id, topic_id):
        self.connection = connection
        self.member_id = member_id
        self.session_epoch = 0
        self.partitions = [(topic_id, 0)]

    async def fetch(self, acks=(), **changes):
        """Returns the acquired records of all partitions; `acks` are (partition, first, last, types)."""
        topic_id = self.partitions[0][0]
        wanted = {}
        if self.session_epoch == 0:
            wanted = {index: [] for _, index in self.partitions}
        for index, first, last, types in acks:
            wanted.setdefault(index, []).append(
                share_fetch.AcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=types
                )
            )
        topics = [
            share_fetch.FetchTopic(
                topic_id=topic_id,
                partitions=[
                    share_fetch.FetchPartition(partition_index=index, acknowledgement_batches=acks)
                    for index, acks in wanted.items()
                ],
            )
        ]
        values = {"max_wait_ms": 500, "min_bytes": 1, "max_records": 500, "batch_size": 500}
        answer = await self.connection.call(
            ShareFetchRequest(
                group_id=GROUP,
                member_id=self.member_id,
                share_session_epoch=self.session_epoch,
                topics=topics if wanted else [],
                forgotten_topics_data=[],
                **values | changes,
            ),
            timeout=SECONDS,
        )
        assert answer.error_code == 0, answer.error_message
        self.session_epoch += 1
        found = []
        for topic in answer.responses:
            for data in topic.partitions:
                assert (data.error_code, data.acknowledge_error_code) == (0, 0), data
                found += [
                    (data.partition_index, part.first_offset, part.last_offset, part.delivery_count)
                    for part in data.acquired_records
                ]
        return sorted(found)

    async def acquired(self):
        """Returns what the next fetch that finds something acquires."""
        with trio.fail_after(SECONDS):
            while not (found := await self.fetch()):
                pass
        return found

    async def acknowledge(self, *acks, epoch=None):
        topic_id = self.partitions[0][0]
        wanted = {}
        for index, first, last, types in acks:
            wanted.setdefault(index, []).append(
                share_acknowledge.AcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=types
                )
            )
        answer = await self.connection.call(
            ShareAcknowledgeRequest(
                group_id=GROUP,
                member_id=self.member_id,
                share_session_epoch=self.session_epoch if epoch is None else epoch,
                topics=[
                    share_acknowledge.AcknowledgeTopic(
                        topic_id=topic_id,
                        partitions=[
                            share_acknowledge.AcknowledgePartition(
                                partition_index=index, acknowledgement_batches=batches
                            )
                            for index, batches in wanted.items()
                        ],
                    )
                ],
            ),
            timeout=SECONDS,
        )
        assert answer.error_code == 0, answer.error_message
        self.session_epoch += 1
        return [data.error_code for topic in answer.responses for data in topic.partitions]


async def begin(one):
    """Creates the topic `t`, and lets the group begin at its beginning."""
    await one.create("t")
    config = AlterableConfig(name="share.auto.offset.reset", config_operation=SET, value="earliest")
    resource = AlterConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=GROUP, configs=[config]
    )
    answer = await one.call(
        IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    )
    assert [each.error_code for each in answer.responses] == [0]
    await one.seen(lambda image: image.configs.of(GROUP_RESOURCE, GROUP))
    topic_id = one.image.topics.by_name["t"].id
    key = SharePartitionKey(GROUP, topic_id, 0)
    with trio.fail_after(SECONDS):
        await one.broker.contexts.groups.share_states.initialize(key, StateEpoch(1), None)
    return topic_id


async def send(one, count):
    data = produce.PartitionProduceData(index=0, records=bytes(batch(*[b"v"] * count)))
    topic_id = one.image.topics.by_name["t"].id
    topic = produce.TopicProduceData(name="t", topic_id=topic_id, partition_data=[data])
    answer = await one.call(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic]))
    assert [part.error_code for each in answer.responses for part in each.partition_responses] == [
        0
    ]


async def test_records_are_shared_by_two_members(tmp_path):
    async with broker_client(tmp_path, **SINGLE) as one, connected_to(one.broker) as other:
        topic_id = await begin(one)
        a = ShareConsumer(one.connection, "a" * 22, topic_id)
        b = ShareConsumer(other, "b" * 22, topic_id)
        await send(one, 10)
        assert await a.acquired() == [(0, 0, 9, 1)]
        await send(one, 5)
        assert await b.acquired() == [(0, 10, 14, 1)]
        assert await a.acknowledge((0, 0, 4, [1]), (0, 5, 9, [2])) == [0]
        assert await b.fetch(acks=[(0, 10, 14, [1])]) == [(0, 5, 9, 2)]
        assert await b.acknowledge((0, 5, 9, [1]), epoch=-1) == [0]
        state = one.broker.parts.families.shares.sharing.find(
            SharePartitionKey(GROUP, topic_id, 0)
        ).core
        assert (state.start, state.size) == (15, 0)


async def test_closed_connection_gives_records_to_others(tmp_path):
    async with broker_client(tmp_path, **SINGLE) as one:
        topic_id = await begin(one)
        await send(one, 3)
        async with connected_to(one.broker) as other:
            gone = ShareConsumer(other, "b" * 22, topic_id)
            assert await gone.acquired() == [(0, 0, 2, 1)]
        a = ShareConsumer(one.connection, "a" * 22, topic_id)
        assert await a.acquired() == [(0, 0, 2, 2)]


async def test_acknowledged_records_are_stored(tmp_path):
    async with broker_client(tmp_path, **SINGLE) as one:
        topic_id = await begin(one)
        await send(one, 6)
        a = ShareConsumer(one.connection, "a" * 22, topic_id)
        assert await a.acquired() == [(0, 0, 5, 1)]
        assert await a.acknowledge((0, 0, 1, [1]), epoch=a.session_epoch) == [0]
        assert await a.acknowledge((0, 3, 3, [3])) == [0]
        states = one.broker.contexts.groups.share_states
        share = one.broker.parts.families.shares.sharing.find(SharePartitionKey(GROUP, topic_id, 0))
        found = await states.read(share.key, share.leader.epoch)
        assert found.summary.start_offset == 2
        assert (3, 3) in [(part.first_offset, part.last_offset) for part in found.batches]
