"""Large valid requests about share groups are handled in steps: many partitions of one topic, many topics of one
partition, and their states. Without undivided work, the largest ones are handled in steps, too.
"""

from __future__ import annotations

import pytest
import trio

from tests.broker.calls import call, finished, through_wire
from tests.broker.groups.rig import TOPIC_ID, cluster_image, open_rig, topic_image
from tests.broker.groups.share.states import StatesInMemory
from tests.broker.handlers.test_describe_share_group_offsets import Ends
from tests.broker.handlers.test_share_group_heartbeat import joining, served
from tests.broker.share_state import requests as of_states
from tests.broker.share_state.rig import open_rig as open_states
from tests.broker.share_state.rig import states_topic, topic_t
from tests.broker.sharing.led import settle
from tests.broker.sharing.rig import sharing_rig
from tests.broker.transactions.rig import HERE
from tests.slow_steps import CALLS_MAX as UNDIVIDED_MAX
from tests.slow_steps import no_slow_steps
from trimaran.broker.groups.records import OFFSETS_TOPIC
from trimaran.broker.groups.share import kind as share
from trimaran.broker.groups.share.settings import ShareGroupSettings
from trimaran.broker.groups.share.state_partitions import TOPICS_MAX
from trimaran.broker.handlers.alter_share_group_offsets import alter_share_group_offsets
from trimaran.broker.handlers.delete_groups import delete_groups
from trimaran.broker.handlers.delete_share_group_offsets import delete_share_group_offsets
from trimaran.broker.handlers.describe_share_group_offsets import describe_share_group_offsets
from trimaran.broker.handlers.share_group_describe import share_group_describe
from trimaran.broker.handlers.share_group_heartbeat import share_group_heartbeat
from trimaran.broker.handlers.write_share_group_state import write_share_group_state
from trimaran.broker.share_state.memory import BATCHES_MAX
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from trimaran.wire.messages.delete_groups import DeleteGroupsRequest
from trimaran.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from trimaran.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from trimaran.wire.messages.share_group_describe import ShareGroupDescribeRequest
from trimaran.wire.transport.requests.handles import declaration_of

pytestmark = pytest.mark.slow(seconds=20)

MANY = 4_000
MANY_TOPICS = 2_500
MANY_STATES = 1_000
# The largest number of records that a share partition may have in flight.
MANY_RECORDS = 10_000
# Detects undivided work of three calls for a partition, or of more for a topic: all topics are written in one record.
CALLS_MAX = 3 * MANY
CALLS_MAX_OF_TOPICS = UNDIVIDED_MAX * MANY_TOPICS // TOPICS_MAX
CALLS_MAX_OF_STATES = 3 * MANY_STATES
CALLS_MAX_OF_RECORDS = 3 * MANY_RECORDS


def many_topics(count):
    return [topic_image(f"t{number}", number.to_bytes(16, "big"), 1) for number in range(count)]


async def asked(handler, request, context, calls_max):
    """Returns the response of a handler, each step of which makes fewer calls."""
    version = declaration_of(handler).versions.high
    request = through_wire(request, version)
    with no_slow_steps(calls_max):
        response = await finished(handler(request, context, call(request, version)))
    return type(response).decode(response.encode(version), version)


async def open_group(rig, *topics):
    """Serves share groups in a cluster with these topics."""
    offsets = topic_image(OFFSETS_TOPIC, b"o" * 16, rig.limits.partition_count)
    rig.metadata.image = cluster_image(*topics, offsets)
    served(rig)
    rig.context.latest_offsets = ends = Ends()
    ends.ends = {
        TopicPartition(topic.name, index): 9 for topic in topics for index in topic.partitions
    }
    await rig.leading()


def altering(topics, start_offset=5):
    return AlterShareGroupOffsetsRequest(
        group_id="g",
        topics=[
            AlterShareGroupOffsetsRequestTopic(
                topic_name=topic.name,
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(
                        partition_index=index, start_offset=start_offset
                    )
                    for index in topic.partitions
                ],
            )
            for topic in topics
        ],
    )


def describing(topics):
    named = [
        DescribeShareGroupOffsetsRequestTopic(
            topic_name=topic.name, partitions=list(topic.partitions)
        )
        for topic in topics
    ]
    groups = [
        DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None),
        DescribeShareGroupOffsetsRequestGroup(group_id="h", topics=named),
    ]
    return DescribeShareGroupOffsetsRequest(groups=groups)


def deleting(topics):
    named = [DeleteShareGroupOffsetsRequestTopic(topic_name=topic.name) for topic in topics]
    return DeleteShareGroupOffsetsRequest(group_id="g", topics=named)


SIZES = {
    "partitions": ([topic_image("t", TOPIC_ID, MANY)], CALLS_MAX),
    "topics": (many_topics(MANY_TOPICS), CALLS_MAX_OF_TOPICS),
}


@pytest.mark.parametrize("name", SIZES)
async def test_offsets_are_administered_in_steps(tmp_path, name, autojump_clock):
    topics, calls_max = SIZES[name]
    states = StatesInMemory()
    async with open_rig(tmp_path, share_states=states) as rig:
        await open_group(rig, *topics)
        count = sum(len(topic.partitions) for topic in topics)
        for _ in range(2):  # the first request compiles its codecs
            response = await asked(
                alter_share_group_offsets, altering(topics), rig.context, calls_max
            )
            results = [part for topic in response.responses for part in topic.partitions]
            assert (len(results), {part.error_code for part in results}) == (count, {0})
            request = describing(topics)
            response = await asked(describe_share_group_offsets, request, rig.context, calls_max)
            found = [
                (part.start_offset, part.error_code)
                for group in response.groups
                for topic in group.topics
                for part in topic.partitions
            ]
            assert found == [(5, 0)] * count + [(-1, 0)] * count
            request = deleting(topics)
            response = await asked(delete_share_group_offsets, request, rig.context, calls_max)
            assert [topic.error_code for topic in response.responses] == [0] * len(topics)
            assert states.stored == {}


@pytest.mark.parametrize("name", SIZES)
async def test_large_share_group_lives_in_steps(tmp_path, name, monkeypatch, autojump_clock):
    topics, calls_max = SIZES[name]
    monkeypatch.setattr(share, "DEFAULTS", ShareGroupSettings(assignment_interval_ms=0))
    states = StatesInMemory()
    async with open_rig(tmp_path, share_states=states) as rig:
        await open_group(rig, *topics)
        joins = joining(subscribed_topic_names=[topic.name for topic in topics])
        await asked(share_group_heartbeat, joins, rig.context, calls_max)
        assigned = []
        while len(assigned) < len(topics):
            await trio.sleep(1)
            response = await asked(share_group_heartbeat, joins, rig.context, calls_max)
            assigned = response.assignment.topic_partitions
        describe = ShareGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False)
        described = await asked(share_group_describe, describe, rig.context, calls_max)
        leaves = joining(member_epoch=-1)
        await asked(share_group_heartbeat, leaves, rig.context, calls_max)
        delete = DeleteGroupsRequest(groups_names=["g"])
        response = await asked(delete_groups, delete, rig.context, calls_max)
        [group] = described.groups
        [member] = group.members
        count = sum(len(topic.partitions) for topic in topics)
        assert sum(len(one.partitions) for one in member.assignment.topic_partitions) == count
        assert [(one.group_id, one.error_code) for one in response.results] == [("g", 0)]
        assert states.stored == {}


@pytest.mark.parametrize("more", [-1, 0, 1])
async def test_topics_with_offsets_are_limited(tmp_path, monkeypatch, more, autojump_clock):
    monkeypatch.setattr("trimaran.broker.groups.share.offsets.TOPICS_MAX", 5)
    topics = many_topics(5 + more)
    async with open_rig(tmp_path, share_states=StatesInMemory()) as rig:
        await open_group(rig, *topics)
        request = through_wire(altering(topics), 0)
        altered = alter_share_group_offsets(request, rig.context, call(request, 0))
        if more > 0:
            with pytest.raises(KafkaError) as refused:
                await finished(altered)
            assert refused.value.code is ErrorCode.POLICY_VIOLATION
        else:
            assert (await finished(altered)).error_code == ErrorCode.NONE


@pytest.mark.parametrize("api", ["fetch", "acknowledge"])
async def test_largest_acknowledgement_is_stored_in_steps(tmp_path, api):
    """Records are acknowledged differently, so each has a state of its own."""
    keys = ("group_share_partition_max_record_locks", "group_share_max_partition_max_record_locks")
    async with sharing_rig(tmp_path, **dict.fromkeys(keys, MANY_RECORDS)) as rig:
        rig.produce(MANY_RECORDS)
        await rig.fetched(0, 0)
        await settle()
        limits = {"max_records": MANY_RECORDS, "batch_size": MANY_RECORDS}
        [topic] = (await rig.fetched(1, 0, **limits)).responses
        [acquired] = topic.partitions[0].acquired_records
        assert (acquired.first_offset, acquired.last_offset) == (0, MANY_RECORDS - 1)
        acks = {0: [(0, MANY_RECORDS - 1, [1, 2] * (MANY_RECORDS // 2))]}
        with no_slow_steps(CALLS_MAX_OF_RECORDS):
            if api == "fetch":
                response = await rig.fetched(2, acks=acks)
            else:
                response = await rig.acknowledged(2, acks)
        [topic] = response.responses
        code = "acknowledge_error_code" if api == "fetch" else "error_code"
        assert getattr(topic.partitions[0], code) == ErrorCode.NONE
        [batches] = rig.states.written
        assert len(batches) == MANY_RECORDS


async def test_largest_state_is_written_in_steps(tmp_path):
    """The batches of the state cannot be joined. The last step encodes them, in three calls for each."""
    async with open_states(tmp_path) as rig:
        rig.metadata.set(states_topic(HERE), topic_t(1))
        await asked(
            of_states.HANDLER_OF[type(of_states.initialize(0))],
            of_states.initialize(0),
            rig,
            UNDIVIDED_MAX,
        )
        for count in (1, 2):
            batches = [(100 + n, 100 + n, 2 * (n % 2), count) for n in range(BATCHES_MAX)]
            request = of_states.write(of_states.change(0, *batches))
            response = await asked(write_share_group_state, request, rig, 3 * BATCHES_MAX)
            assert set(of_states.codes(response).values()) == {ErrorCode.NONE}


async def test_states_are_changed_in_steps(tmp_path):
    async with open_states(tmp_path) as rig:
        rig.metadata.set(states_topic(HERE), topic_t(MANY_STATES))
        indexes = range(MANY_STATES)
        requests = [
            of_states.initialize(*indexes),
            of_states.read(*indexes),
            of_states.write(*[of_states.change(index, (100, 101, 2, 1)) for index in indexes]),
            of_states.summary(*indexes),
            of_states.read(*indexes),
            of_states.delete(*indexes),
        ]
        for request in requests:
            response = await asked(
                of_states.HANDLER_OF[type(request)], request, rig, CALLS_MAX_OF_STATES
            )
            assert set(of_states.codes(response).values()) == {ErrorCode.NONE}
