"""Requests to share coordinators, here or elsewhere: one for each broker, API and group; retries and their end."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from tests.broker.coordination.leader import Leader
from tests.broker.share_state.driver import ACKNOWLEDGED, AVAILABLE, KEY, OTHER, TOPIC_ID, code
from tests.broker.share_state.rig import open_rig, states_topic, topic_t
from tests.broker.transactions.channels import Channels
from tests.broker.transactions.rig import HERE, THERE
from trimaran.broker.channels.broker_channel import NotSent, OutcomeUnknown
from trimaran.broker.metadata.internal_topics import SHARE_GROUP_STATE
from trimaran.broker.share_state import persister
from trimaran.broker.share_state.persister import ATTEMPTS_MAX, StatePersister
from trimaran.broker.share_state.states import ShareState, ShareSummary, StateBatch
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import SharePartitionKey
from trimaran.wire.messages import delete_share_group_state as deleting
from trimaran.wire.messages import initialize_share_group_state as initializing
from trimaran.wire.messages import read_share_group_state as reading
from trimaran.wire.messages import read_share_group_state_summary as summing
from trimaran.wire.messages import write_share_group_state as writing

E = ErrorCode
ACKED = StateBatch(100, 109, ACKNOWLEDGED, 1)


class Creation:
    """Creates the topic of states with this leader, or returns the error."""

    def __init__(self, metadata, leader=HERE):
        self.metadata = metadata
        self.leader = leader
        self.codes = []
        self.asked = 0

    async def create(self, names):
        await trio.lowlevel.checkpoint()
        assert list(names) == [SHARE_GROUP_STATE]
        self.asked += 1
        found = self.codes.pop(0) if self.codes else E.NONE
        if not found:
            set_leader(self.metadata, self.leader)
        return {SHARE_GROUP_STATE: found}


def set_leader(metadata, leader):
    metadata.set(states_topic(leader), topic_t(), brokers=(HERE, THERE))


@pytest.fixture(autouse=True)
def even_backoff(monkeypatch):
    """Delays do not vary."""
    monkeypatch.setattr(persister.random, "random", lambda: 0.5)


@asynccontextmanager
async def open_states(path, answer=None, *, version=1, leader=HERE):
    """Opens a persister; `answer` receives a broker and a request."""
    async with open_rig(path) as rig, trio.open_nursery() as nursery:
        channels = Channels(version, answer)
        creation = Creation(rig.metadata, leader)
        set_leader(rig.metadata, leader)
        states = StatePersister(HERE, rig.shares, channels, rig.metadata, creation, 30)
        rig.channels, rig.creation = channels, creation
        await nursery.start(states.run)
        yield rig, states
        nursery.cancel_scope.cancel()


async def refusal(call, *arguments):
    with pytest.raises(KafkaError) as caught:
        await call(*arguments)
    return caught.value.code


async def test_local_coordinator_needs_no_request(tmp_path):
    async with open_states(tmp_path) as (rig, states):
        await states.initialize(KEY, 1, 100)
        assert await states.read(KEY, 5) == ShareState(ShareSummary(1, 5, 100, None), ())
        await states.write(KEY, ShareSummary(1, 5, 100, 10), [ACKED])
        assert await states.read(KEY, 5) == ShareState(ShareSummary(1, 5, 100, None), (ACKED,))
        assert await states.summary(KEY, 5) == ShareSummary(1, 5, 100, 10)
        await states.delete(KEY)
        await states.delete(KEY)
        assert await refusal(states.read, KEY, 5) is E.INVALID_REQUEST
        assert rig.channels.asked == []


# -- elsewhere

RESPONSES = {
    reading.ReadShareGroupStateRequest: lambda index: reading.PartitionResult(
        partition=index,
        state_epoch=1,
        start_offset=100,
        state_batches=[
            reading.StateBatch(
                first_offset=100, last_offset=109, delivery_state=2, delivery_count=1
            )
        ],
    ),
    summing.ReadShareGroupStateSummaryRequest: lambda index: summing.PartitionResult(
        partition=index,
        state_epoch=1,
        leader_epoch=5,
        start_offset=-1,
        delivery_complete_count=-1,
    ),
    initializing.InitializeShareGroupStateRequest: lambda index: initializing.PartitionResult(
        partition=index
    ),
    writing.WriteShareGroupStateRequest: lambda index: writing.PartitionResult(partition=index),
    deleting.DeleteShareGroupStateRequest: lambda index: deleting.PartitionResult(partition=index),
}
PARTS = {
    reading.ReadShareGroupStateRequest: (
        reading.ReadShareGroupStateResponse,
        reading.ReadStateResult,
    ),
    summing.ReadShareGroupStateSummaryRequest: (
        summing.ReadShareGroupStateSummaryResponse,
        summing.ReadStateSummaryResult,
    ),
    initializing.InitializeShareGroupStateRequest: (
        initializing.InitializeShareGroupStateResponse,
        initializing.InitializeStateResult,
    ),
    writing.WriteShareGroupStateRequest: (
        writing.WriteShareGroupStateResponse,
        writing.WriteStateResult,
    ),
    deleting.DeleteShareGroupStateRequest: (
        deleting.DeleteShareGroupStateResponse,
        deleting.DeleteStateResult,
    ),
}


def answer(_broker_id, request, code_of=lambda _index: E.NONE):
    """Returns a response with the code of each partition."""
    whole, of_topic = PARTS[type(request)]
    topics = []
    for topic in request.topics:
        results = []
        for item in topic.partitions:
            result = RESPONSES[type(request)](item.partition)
            result.error_code = code_of(item.partition)
            results.append(result)
        topics.append(of_topic(topic_id=topic.topic_id, partitions=results))
    return whole(results=topics)


def versioned(request):
    has_count = (writing.WriteShareGroupStateRequest, summing.ReadShareGroupStateSummaryRequest)
    return 1 if isinstance(request, has_count) else 0


class Elsewhere(Channels):
    """Channels whose requests have the newest version of their API."""

    async def call(self, broker_id, request, *, timeout):  # noqa: ASYNC109
        self.version = versioned(request)
        return await super().call(broker_id, request, timeout=timeout)


@asynccontextmanager
async def open_elsewhere(path, respond=answer):
    async with open_states(path, respond, leader=THERE) as (rig, states):
        rig.channels.__class__ = Elsewhere
        yield rig.channels, states


async def test_each_api_is_sent_with_its_fields(tmp_path):
    async with open_elsewhere(tmp_path) as (channels, states):
        await states.initialize(KEY, 1, None)
        assert await states.read(KEY, 5) == ShareState(ShareSummary(1, 5, 100, None), (ACKED,))
        await states.write(KEY, ShareSummary(1, 5, 100, None), [ACKED])
        assert await states.summary(KEY, 6) == ShareSummary(1, 5, None, None)
        await states.delete(KEY)
        batch = writing.StateBatch(
            first_offset=100, last_offset=109, delivery_state=2, delivery_count=1
        )
        items = [
            initializing.PartitionData(partition=1, state_epoch=1, start_offset=-1),
            reading.PartitionData(partition=1, leader_epoch=5),
            writing.PartitionData(
                partition=1,
                state_epoch=1,
                leader_epoch=5,
                start_offset=100,
                delivery_complete_count=-1,
                state_batches=[batch],
            ),
            summing.PartitionData(partition=1, leader_epoch=6),
            deleting.PartitionData(partition=1),
        ]
        for (_, broker_id, request, timeout), item in zip(channels.asked, items, strict=True):
            (topic,) = request.topics
            found = (broker_id, request.group_id, topic.topic_id, topic.partitions, timeout)
            assert found == (THERE, "g", TOPIC_ID, [item], 30)


async def test_keys_of_a_group_are_sent_together(tmp_path):
    """The first four requests are in flight when the others arrive."""
    keys = [SharePartitionKey(group_id, TOPIC_ID, index) for group_id in "ab" for index in range(3)]
    async with open_elsewhere(tmp_path) as (channels, states):
        blocked = trio.Event()
        unheld = channels.call

        async def held(*arguments, **timeout):
            await blocked.wait()
            return await unheld(*arguments, **timeout)

        channels.call = held
        async with trio.open_nursery() as nursery:
            for index in range(4):
                nursery.start_soon(states.delete, SharePartitionKey("first", TOPIC_ID, index))
            await trio.testing.wait_all_tasks_blocked()
            for key in keys:
                nursery.start_soon(states.delete, key)
            nursery.start_soon(states.read, keys[0], 5)
            await trio.testing.wait_all_tasks_blocked()
            blocked.set()
        together = sorted(
            (type(request).__name__[:4], request.group_id, len(request.topics[0].partitions))
            for _, _, request, _ in channels.asked
            if request.group_id != "first"
        )
        assert together == [("Dele", "a", 3), ("Dele", "b", 3), ("Read", "a", 1)]


async def test_each_key_has_its_own_error(tmp_path):
    def some_refused(broker_id, request):
        return answer(broker_id, request, lambda index: E.FENCED_LEADER_EPOCH if index == 1 else 0)

    async with open_elsewhere(tmp_path, some_refused) as (_, states):
        assert await refusal(states.read, KEY, 5) is E.FENCED_LEADER_EPOCH
        assert (await states.read(OTHER, 5)).batches == (ACKED,)


async def test_a_missing_result_is_an_error(tmp_path):
    def nothing(_broker_id, _request):
        return deleting.DeleteShareGroupStateResponse(results=[])

    async with open_elsewhere(tmp_path, nothing) as (_, states):
        assert await refusal(states.delete, KEY) is E.UNKNOWN_SERVER_ERROR


async def test_batch_in_unknown_state_is_an_error(tmp_path):
    def unknown(broker_id, request):
        response = answer(broker_id, request)
        response.results[0].partitions[0].state_batches[0].delivery_state = 9
        return response

    async with open_elsewhere(tmp_path, unknown) as (_, states):
        assert await refusal(states.read, KEY, 5) is E.UNKNOWN_SERVER_ERROR


# -- retries


def failing(*outcomes):
    """Returns an `answer` that has these codes or exceptions first."""
    left = list(outcomes)

    def respond(broker_id, request):
        outcome = left.pop(0) if left else E.NONE
        if isinstance(outcome, Exception):
            raise outcome
        return answer(broker_id, request, lambda _index: outcome)

    return respond


@pytest.mark.parametrize(
    "outcome",
    [
        E.NOT_COORDINATOR,
        E.COORDINATOR_NOT_AVAILABLE,
        E.COORDINATOR_LOAD_IN_PROGRESS,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        NotSent("not"),
        OutcomeUnknown("unknown"),
    ],
    ids=str,
)
async def test_transient_failure_is_retried(tmp_path, autojump_clock, outcome):
    async with open_elsewhere(tmp_path, failing(outcome, outcome)) as (channels, states):
        await states.write(KEY, ShareSummary(1, 5, 100, 10), [ACKED])
        assert channels.times() == [0, 100, 300]


@pytest.mark.parametrize(
    "outcome", [E.FENCED_STATE_EPOCH, E.INVALID_REQUEST, E.CLUSTER_AUTHORIZATION_FAILED]
)
async def test_a_refusal_is_not_retried(tmp_path, autojump_clock, outcome):
    async with open_elsewhere(tmp_path, failing(outcome)) as (channels, states):
        assert await refusal(states.delete, KEY) is outcome
        assert channels.times() == [0]


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (E.NOT_COORDINATOR, E.NOT_COORDINATOR),
        (OutcomeUnknown("unknown"), E.COORDINATOR_NOT_AVAILABLE),
    ],
)
async def test_attempts_are_bounded(tmp_path, autojump_clock, outcome, expected):
    respond = failing(*[outcome] * ATTEMPTS_MAX)
    async with open_elsewhere(tmp_path, respond) as (channels, states):
        assert await refusal(states.delete, KEY) is expected
        first = [0, 100, 300, 700, 1500, 3100, 6300]
        assert channels.times() == [*first, 11_300, 16_300, 21_300, 26_300, 31_300]


async def test_the_last_attempt_may_succeed(tmp_path, autojump_clock):
    respond = failing(*[E.NOT_COORDINATOR] * (ATTEMPTS_MAX - 1))
    async with open_elsewhere(tmp_path, respond) as (channels, states):
        await states.delete(KEY)
        assert len(channels.asked) == ATTEMPTS_MAX


async def test_moved_coordinator_is_found_again(tmp_path, autojump_clock):
    async with open_states(tmp_path, leader=THERE) as (rig, states):

        def moved(_broker_id, request):
            set_leader(rig.metadata, HERE)
            return answer(THERE, request, lambda _index: E.NOT_COORDINATOR)

        rig.channels.version, rig.channels.answer = 0, moved
        await states.initialize(KEY, 1, 100)
        assert len(rig.channels.asked) == 1
        assert (await states.summary(KEY, 0)).start_offset == 100


async def test_missing_leader_is_waited_for(tmp_path, autojump_clock):
    async with open_states(tmp_path) as (rig, states):
        rig.metadata.set(states_topic(THERE), topic_t(), brokers=(HERE,))
        with trio.move_on_after(0.05) as scope:
            await states.initialize(KEY, 1, 100)
        assert scope.cancelled_caught
        rig.metadata.set(states_topic(THERE), topic_t(), brokers=(THERE,), fenced=True)
        assert await refusal(states.initialize, KEY, 1, 100) is E.COORDINATOR_NOT_AVAILABLE
        set_leader(rig.metadata, HERE)
        await states.initialize(KEY, 1, 100)


async def test_the_first_request_creates_the_topic(tmp_path, autojump_clock):
    async with open_states(tmp_path) as (rig, states):
        rig.metadata.set(topic_t())
        rig.creation.codes = [E.UNKNOWN_TOPIC_OR_PARTITION, E.INVALID_REPLICATION_FACTOR]
        began = trio.current_time()
        await states.initialize(KEY, 1, 100)
        assert rig.creation.asked == 3
        assert trio.current_time() - began == pytest.approx(0.3)
        await states.initialize(KEY, 1, 100)
        assert rig.creation.asked == 3


async def test_failed_creation_is_an_error(tmp_path, autojump_clock):
    async with open_states(tmp_path) as (rig, states):
        rig.metadata.set(topic_t())
        rig.creation.codes = [E.INVALID_REPLICATION_FACTOR] * ATTEMPTS_MAX
        with pytest.raises(KafkaError, match="could not be created: INVALID_REPLICATION_FACTOR"):
            await states.delete(KEY)


async def test_loading_local_coordinator_is_awaited(tmp_path, held_load, monkeypatch):
    """No attempt fails."""
    monkeypatch.setattr(persister, "ATTEMPTS_MAX", 1)
    held_load.set()
    async with open_states(tmp_path) as (rig, states):
        rig.resign()
        rig.leader = Leader(rig.leader.log, 1)
        held_load.clear()
        rig.lead()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(states.initialize, KEY, 1, 100)
            await trio.testing.wait_all_tasks_blocked()
            assert code(lambda: rig.shares.summary(KEY)) is E.COORDINATOR_LOAD_IN_PROGRESS
            held_load.set()
        assert (await states.summary(KEY, 0)).start_offset == 100


async def test_a_stopped_persister_sends_nothing(tmp_path, autojump_clock):
    async with open_states(tmp_path, answer, leader=THERE) as (rig, _):
        stopped = StatePersister(HERE, rig.shares, rig.channels, rig.metadata, rig.creation, 30)
        assert await refusal(stopped.delete, KEY) is E.COORDINATOR_NOT_AVAILABLE
        assert rig.channels.asked == []


def test_item_of_write_encodes_missing_numbers():
    item = persister.rpcs.write_item(
        KEY, ShareSummary(1, 5, None, 3), [StateBatch(1, 2, AVAILABLE, 4)]
    )
    assert (item.start_offset, item.delivery_complete_count) == (-1, 3)
    assert item.state_batches == [
        writing.StateBatch(first_offset=1, last_offset=2, delivery_state=0, delivery_count=4)
    ]
