"""Quotas that are set while a broker runs: requests over quota are answered immediately, with a throttle time."""

import pytest
import trio

from tests.broker.batches import batch
from tests.broker.handlers.broker_client import broker_client
from tests.cluster.in_process import connected_to
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from trimaran.wire.messages.list_groups import ListGroupsRequest
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

SECONDS = 20.0
LIMIT = 1000.0
BYTES = 30_000
# A rate covers at least ten windows: 30,000 bytes are 3,000 a second, and take twenty more seconds to become 1,000.
WAIT_MS = 20_000


async def alter(one, key, *, remove=False, limit=LIMIT):
    entry = AlterClientQuotasRequestEntryData(
        entity=[EntityData(entity_type="user", entity_name=None)],
        ops=[OpData(key=key, value=limit, remove=remove)],
    )
    async with connected_to(one.broker) as admin:
        answer = await admin.call(
            AlterClientQuotasRequest(entries=[entry], validate_only=False), timeout=SECONDS
        )
    assert answer.entries[0].error_code == 0
    await one.seen(lambda image: bool(image.quotas) is not remove)


def produce_request():
    data = PartitionProduceData(index=0, records=batch(bytes(BYTES)))
    return ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name="t", partition_data=[data])],
    )


def fetch_request(session_id=0, session_epoch=-1):
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[FetchTopic(topic="t", partitions=[wanted])],
    )


async def fetched(one, *args):
    async with connected_to(one.broker) as consumer:
        return await consumer.call(fetch_request(*args), version=12, timeout=SECONDS)


async def test_producer_is_answered_with_throttle_time(tmp_path):
    async with broker_client(tmp_path) as one:
        await one.create("t")
        assert (await one.call(produce_request(), 9)).throttle_time_ms == 0
        await alter(one, "producer_byte_rate")
        answer = await one.call(produce_request(), 9)
        told = answer.responses[0].partition_responses[0]
        assert (told.error_code, told.base_offset) == (0, 1)
        assert answer.throttle_time_ms == pytest.approx(WAIT_MS, rel=0.05)
        await alter(one, "producer_byte_rate", remove=True)
        async with connected_to(one.broker) as other:
            answer = await other.call(produce_request(), version=9, timeout=SECONDS)
        assert answer.throttle_time_ms == 0


@pytest.mark.parametrize("session_epoch", [-1, 0])
async def test_consumer_gets_no_bytes_beyond_limit(tmp_path, session_epoch):
    async with broker_client(tmp_path) as one:
        await one.create("t")
        await one.call(produce_request(), 9)
        await alter(one, "consumer_byte_rate")
        answer = await fetched(one, 0, session_epoch)
        assert (answer.error_code, answer.session_id, answer.responses) == (0, 0, [])
        assert answer.throttle_time_ms == pytest.approx(WAIT_MS, rel=0.05)
        assert len(one.broker.contexts.data.fetch_sessions) == 0
        await alter(one, "consumer_byte_rate", remove=True)
        answer = await fetched(one, 0, session_epoch)
        assert answer.throttle_time_ms == 0
        assert len(answer.responses[0].partitions[0].records) > BYTES


async def test_throttled_session_keeps_its_records(tmp_path):
    """The session's next request, on another connection, gets the records that this one did not return."""
    async with broker_client(tmp_path) as one:
        await one.create("t")
        async with connected_to(one.broker) as keeps:
            first = await keeps.call(fetch_request(0, 0), version=12, timeout=SECONDS)
            await one.call(produce_request(), 9)
            await alter(one, "consumer_byte_rate")
            message = fetch_request(first.session_id, 1).replace(topics=[])
            throttled = await keeps.call(message, version=12, timeout=SECONDS)
            assert (throttled.session_id, throttled.responses) == (first.session_id, [])
            assert throttled.throttle_time_ms == pytest.approx(WAIT_MS, rel=0.05)
            await alter(one, "consumer_byte_rate", remove=True)
            async with connected_to(one.broker) as other:
                message = fetch_request(first.session_id, 2).replace(topics=[])
                answer = await other.call(message, version=12, timeout=SECONDS)
            assert len(answer.responses[0].partitions[0].records) > BYTES


# A smaller share of the event loop than any request uses, so that the connection is muted for a window: the longest
# throttle time of this quota.
HARDLY_ANY_PERCENT = 1e-6
WINDOW_MS = 1000


def metadata_request():
    return MetadataRequest(topics=[])


@pytest.mark.parametrize(
    "request_",
    [metadata_request(), fetch_request(), ListGroupsRequest()],
    ids=["at once", "deferred", "groups"],
)
async def test_client_blocking_event_loop_is_throttled(tmp_path, request_):
    async with broker_client(tmp_path) as one:
        await one.create("t")
        await alter(one, "request_percentage", limit=HARDLY_ANY_PERCENT)
        version = 12 if isinstance(request_, FetchRequest) else None
        assert (await one.call(request_, version)).throttle_time_ms == WINDOW_MS
        await alter(one, "request_percentage", remove=True)
        async with connected_to(one.broker) as other:
            answer = await other.call(request_, version=version, timeout=SECONDS)
        assert answer.throttle_time_ms == 0


async def test_client_within_its_share_is_not_throttled(tmp_path):
    async with broker_client(tmp_path) as one:
        await alter(one, "request_percentage", limit=1e6)
        assert (await one.call(metadata_request())).throttle_time_ms == 0


async def test_followers_are_exempt(tmp_path):
    async with broker_client(tmp_path, brokers=2) as one:
        await alter(one, "request_percentage", limit=HARDLY_ANY_PERCENT)
        await one.create("t", replicas=2)
        leader = one.image.topics.by_name["t"].partitions[0].leader
        follower = next(other for other in one.cluster.brokers if other != leader)
        epoch = one.image.cluster.brokers[follower].epoch
        state = ReplicaState(replica_id=follower, replica_epoch=epoch)
        request = FetchRequest(
            replica_state=state,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1,
            session_epoch=-1,
            topics=[],
        )
        async with connected_to(one.cluster.brokers[leader]) as connection:
            answer = await connection.call(request, version=17, timeout=SECONDS)
            assert (answer.error_code, answer.throttle_time_ms) == (0, 0)
            consumer = request.replace(replica_state=ReplicaState(replica_id=-1, replica_epoch=-1))
            told = await connection.call(consumer, version=17, timeout=SECONDS)
        assert told.throttle_time_ms == WINDOW_MS


@pytest.mark.parametrize("ip", ["127.0.0.1", "::ffff:127.0.0.1", None])
async def test_client_connecting_too_fast_is_not_served(tmp_path, ip):
    async with broker_client(tmp_path) as one:
        entry = AlterClientQuotasRequestEntryData(
            entity=[EntityData(entity_type="ip", entity_name=ip)],
            ops=[OpData(key="connection_creation_rate", value=1, remove=False)],
        )
        await one.call(AlterClientQuotasRequest(entries=[entry], validate_only=False))
        await one.seen(lambda image: image.quotas)
        quota = one.broker.parts.families.data.quotas
        others = [quota.connected("127.0.0.2") for _ in range(50)]
        assert any(others) is (ip is None)
        now = trio.current_time()
        quota.connections.used_by(("127.0.0.1", ""), now).record(1000, now)
        async with await trio.open_tcp_stream(*one.broker.addresses["PLAINTEXT"]) as stream:
            with trio.fail_after(SECONDS):
                assert await stream.receive_some(1) == b""


async def test_host_name_quota_applies_to_its_addresses(tmp_path):
    async with broker_client(tmp_path) as one:
        quota = one.broker.parts.families.data.quotas.connections
        for name in ("localhost", "no.such.host.invalid"):
            entry = AlterClientQuotasRequestEntryData(
                entity=[EntityData(entity_type="ip", entity_name=name)],
                ops=[OpData(key="connection_creation_rate", value=1, remove=False)],
            )
            await one.call(AlterClientQuotasRequest(entries=[entry], validate_only=False))
        with trio.fail_after(SECONDS):
            while quota.use_if_allowed("127.0.0.1", trio.current_time()) == 0:
                await trio.lowlevel.checkpoint()
        assert quota.use_if_allowed("127.0.0.2", trio.current_time()) == 0


async def test_auto_created_topics_count_for_their_client(tmp_path):
    """Kafka does the same: a client that has used up its mutations must retry, and no topic is created."""
    async with broker_client(tmp_path) as one:
        await alter(one, "controller_mutation_rate", limit=0.01)
        await one.create("t", partitions=20)
        missing = MetadataRequest(topics=[MetadataRequestTopic(name="auto")])
        async with connected_to(one.broker) as client:
            (told,) = (await client.call(missing, timeout=SECONDS)).topics
        assert told.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert "auto" not in one.image.topics.by_name
        await alter(one, "controller_mutation_rate", remove=True)
        async with connected_to(one.broker) as client:
            await client.call(missing, timeout=SECONDS)
            (told,) = (await client.call(missing, timeout=SECONDS)).topics
        assert told.error_code == 0
