"""Markers for partitions of several leaders: what is sent to each, what is retried when, and what needs no marker."""

from __future__ import annotations

import pytest
import trio

from tests.broker.transactions.channels import Channels
from tests.broker.transactions.rig import ELSEWHERE, HERE, THERE, Metadata
from tests.checks import check_each
from tests.cluster.data_side import partition, topic
from trimaran.broker.channels.broker_channel import NotSent, OutcomeUnknown
from trimaran.broker.coordination.shard_epoch import ShardState
from trimaran.broker.transactions.markers import MarkerWriter
from trimaran.broker.transactions.transaction import Transaction, TransactionState
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from trimaran.wire.transport.scheduling.effects import Blocking

E = ErrorCode
ALL = (HERE, THERE, ELSEWHERE)
# The pause doubles each time, up to a second, plus a tenth, which `random` returns here.
DELAYS_MS = [22, 44, 88, 176, 352, 704, 1100, 1100]
TIMES_MS = [sum(DELAYS_MS[:count]) for count in range(len(DELAYS_MS))]


def decided(*partitions, state=TransactionState.PREPARE_COMMIT, producer_id=70):
    return Transaction(
        producer_id,
        7,
        1000,
        state,
        frozenset(partitions or [TopicPartition("t", 0)]),
        client_version=2,
    )


def answer_to(request, codes):
    """Returns a response with NONE, except for the partitions of `codes`."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index,
                                error_code=codes.get((topic.name, index), E.NONE),
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def keys_of(request):
    return [
        (topic.name, index)
        for marker in request.markers
        for topic in marker.topics
        for index in topic.partition_indexes
    ]


class Epoch:
    """A shard that only lists decided transactions; its log raises `refusals` before it writes the end."""

    def __init__(self, **transactions: Transaction) -> None:
        self.state = ShardState.ACTIVE
        self.leader_epoch = 4
        self.transactions = transactions
        self.refusals: list[ErrorCode] = []

    def active(self):
        return self

    def decided(self, transactional_id):
        return self.transactions.get(transactional_id)

    def decide(self, act):
        if self.refusals:
            raise KafkaError(self.refusals.pop(0))
        act(self, None)

    def complete(self, transactional_id, transaction, _at):
        assert self.transactions.pop(transactional_id) is transaction


class Brokers:
    """`HERE` writes, and leads `t` 0; `THERE` leads `t` 1 and `u` 2, `ELSEWHERE` `u` 0 and 1."""

    def __init__(self) -> None:
        self.metadata = Metadata()
        self.lead()
        self.codes: dict[tuple[str, int], list[ErrorCode]] = {}
        self.failures: dict[int, list[Exception]] = {}
        self.channels = Channels(2, self.answer)
        self.here = Channels(2, self.answer)
        self.writer = MarkerWriter(HERE, self, self.channels, self.metadata, 2.5)

    def lead(self, brokers=ALL, u_1=ELSEWHERE, **fields) -> None:
        t = topic("t", partition(ALL, leader=HERE), partition(ALL, leader=THERE))
        leaders = (ELSEWHERE, u_1, THERE)
        u = topic("u", *[partition(ALL, leader=leader) for leader in leaders])
        self.metadata.set(t, u, brokers=brokers, **fields)

    def writing(self, request):
        """Writes this broker's markers, with the interface of `Marking`."""
        return (yield Blocking(lambda: self.here.call(HERE, request, timeout=0)))

    def answer(self, broker_id, request):
        if failures := self.failures.get(broker_id):
            raise failures.pop(0)
        named = keys_of(request)
        found = {key: self.codes[key].pop(0) for key in named if self.codes.get(key)}
        return answer_to(request, found)

    def asked(self):
        """Returns the time, the broker and the markers of each request."""
        return sorted(
            (
                when,
                broker_id,
                [(topic.name, topic.partition_indexes) for topic in marker.topics],
            )
            for channels in (self.here, self.channels)
            for when, broker_id, request, _ in channels.asked
            for marker in request.markers
        )


@pytest.fixture
async def brokers(nursery, monkeypatch):
    monkeypatch.setattr("trimaran.broker.transactions.markers.random.random", lambda: 0.75)
    brokers = Brokers()
    await nursery.start(brokers.writer.run)
    return brokers


async def test_each_leader_is_sent_its_own_partitions(brokers, autojump_clock):
    partitions = [
        TopicPartition("u", 1),
        TopicPartition("u", 0),
        TopicPartition("t", 1),
        TopicPartition("t", 0),
        TopicPartition("u", 2),
    ]

    async def check(state, is_commit):
        epoch = Epoch(x=decided(*partitions, state=state))
        await brokers.writer.finish(epoch, "x")
        assert epoch.transactions == {}
        assert [(item, topics) for _, item, topics in brokers.asked()] == [
            (HERE, [("t", [0])]),
            (THERE, [("t", [1]), ("u", [2])]),
            (ELSEWHERE, [("u", [0, 1])]),
        ]
        for _, _, request, seconds in brokers.channels.asked:
            (marker,) = request.markers
            assert seconds == 2.5
            assert (marker.producer_id, marker.producer_epoch) == (70, 7)
            assert marker.transaction_result is is_commit
            assert (marker.coordinator_epoch, marker.transaction_version) == (4, 2)

    await check(TransactionState.PREPARE_COMMIT, True)
    for channels in (brokers.here, brokers.channels):
        channels.asked.clear()
    await check(TransactionState.PREPARE_ABORT, False)


async def test_only_unwritten_markers_are_resent_with_pauses(brokers, autojump_clock):
    brokers.codes = {TopicPartition("t", 1): [E.NOT_LEADER_OR_FOLLOWER] * (len(TIMES_MS) - 1)}
    await brokers.writer.finish(
        Epoch(x=decided(TopicPartition("t", 1), TopicPartition("u", 0))), "x"
    )
    assert brokers.asked() == [
        (0, THERE, [("t", [1])]),
        (0, ELSEWHERE, [("u", [0])]),
        *((when, THERE, [("t", [1])]) for when in TIMES_MS[1:]),
    ]


async def test_each_code_is_final_or_retried(brokers, autojump_clock):
    final = {
        E.NONE,
        E.INVALID_PRODUCER_EPOCH,
        E.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        E.UNSUPPORTED_VERSION,
    }
    attempts = {}
    for code in E:
        brokers.channels.asked.clear()
        brokers.codes = {TopicPartition("t", 1): [code]}
        await brokers.writer.finish(Epoch(x=decided(TopicPartition("t", 1))), "x")
        attempts[code] = len(brokers.channels.asked)

    def check(code):
        assert attempts[code] == (1 if code in final else 2)

    check_each(E, check)


@pytest.mark.parametrize("failure", [NotSent("no connection"), OutcomeUnknown("no answer")])
async def test_silent_broker_is_retried_without_delaying_others(brokers, failure, autojump_clock):
    brokers.failures = {THERE: [failure, failure]}
    await brokers.writer.finish(
        Epoch(x=decided(TopicPartition("t", 1), TopicPartition("t", 0))), "x"
    )
    assert [(item, topics) for _, item, topics in brokers.asked()] == [
        (HERE, [("t", [0])]),
        *[(THERE, [("t", [1])])] * 3,
    ]


async def test_markers_missing_in_answer_are_resent(brokers, autojump_clock):
    answers = iter(
        [
            lambda _request: WriteTxnMarkersResponse(markers=[]),
            lambda request: _renamed(answer_to(request, {})),
            lambda request: answer_to(request, {}),
        ]
    )
    brokers.channels.answer = lambda _id, request: next(answers)(request)
    await brokers.writer.finish(Epoch(x=decided(TopicPartition("t", 1))), "x")
    assert brokers.channels.times() == TIMES_MS[:3]


def _renamed(answer):
    answer.markers[0].topics[0].name = "another"
    return answer


async def test_leaderless_partitions_wait_for_a_leader(brokers, nursery, autojump_clock):
    for change in (
        {"u_1": -1},
        {"u_1": 99},
        {"brokers": (HERE, THERE)},
        {"brokers": ALL, "fenced": True},
    ):
        brokers.channels.asked.clear()
        brokers.lead(**change)
        epoch = Epoch(x=decided(TopicPartition("u", 1)))
        nursery.start_soon(brokers.writer.finish, epoch, "x")
        await trio.sleep(0.5)
        assert brokers.channels.asked == []
        brokers.lead()
        await trio.sleep(0.5)
        assert epoch.transactions == {}
        assert [item for _, item, *_ in brokers.asked()] == [ELSEWHERE]


async def test_deleted_partitions_need_no_marker(brokers, nursery, autojump_clock):
    epoch = Epoch(
        x=decided(TopicPartition("gone", 0), TopicPartition("t", 2), TopicPartition("t", 1))
    )
    await brokers.writer.finish(epoch, "x")
    assert brokers.asked() == [(0, THERE, [("t", [1])])]
    brokers.failures = {THERE: [NotSent("")] * 3}
    epoch = Epoch(x=decided(TopicPartition("t", 1)))
    nursery.start_soon(brokers.writer.finish, epoch, "x")
    await trio.sleep(0.05)
    brokers.metadata.set(topic("t", partition(ALL)), brokers=ALL)
    await trio.sleep(1)
    assert epoch.transactions == {}
    assert len(brokers.channels.asked) == 3, "the last of them when it was there still"


async def test_stuck_transaction_is_logged_once(brokers, caplog, autojump_clock):
    names = [
        TopicPartition("u", 2),
        TopicPartition("u", 1),
        TopicPartition("u", 0),
        TopicPartition("t", 1),
        TopicPartition("v", 1),
        TopicPartition("v", 0),
    ]
    v = topic("v", *[partition(ALL, leader=THERE)] * 2)
    brokers.metadata.set(*brokers.metadata.image.topics.by_name.values(), v, brokers=ALL)
    brokers.failures = {THERE: [NotSent("")] * 40, ELSEWHERE: [NotSent("")] * 40}
    told = []
    brokers.channels.answer = _counting(brokers, told, caplog)
    await brokers.writer.finish(Epoch(x=decided(*names)), "x")
    # Each attempt sends to two leaders; the warning follows the twenty-fifth.
    assert told.index(1) == 2 * 25
    assert max(told) == 1
    (record,) = caplog.records
    assert record.getMessage().startswith(
        "transaction of 'x' waits for markers in t-1, u-0, u-1, u-2, v-0"
    )
    assert "v-1" not in record.getMessage()


def _counting(brokers, told, caplog):
    def answer(broker_id, request):
        told.append(len(caplog.records))
        return brokers.answer(broker_id, request)

    return answer


async def test_unwritten_end_is_retried_with_markers(brokers, autojump_clock):
    epoch = Epoch(x=decided(TopicPartition("t", 1)))
    epoch.refusals = [E.NOT_ENOUGH_REPLICAS] * 3
    await brokers.writer.finish(epoch, "x")
    assert brokers.channels.times() == TIMES_MS[:4]
    assert epoch.transactions == {}


async def test_shard_of_ended_epoch_completes_nothing(brokers, autojump_clock):
    epoch = Epoch(x=decided(TopicPartition("t", 1)))
    epoch.state = ShardState.CLOSED
    await brokers.writer.finish(epoch, "x")
    assert brokers.asked() == []
    epoch.state = ShardState.ACTIVE
    await brokers.writer.finish(epoch, "y")
    assert brokers.asked() == []
    assert "x" in epoch.transactions


async def test_transactions_of_one_broker_share_a_request(brokers, nursery, autojump_clock):
    epoch = Epoch(
        **{
            f"id-{number}": decided(TopicPartition("t", 1), producer_id=number)
            for number in range(9)
        }
    )
    sizes = []

    def answer(_broker_id, request):
        sizes.append(len(request.markers))
        found = answer_to(request, {})
        for marker in found.markers:
            if marker.producer_id % 2 and len(sizes) < 6:
                marker.topics[0].partitions[0].error_code = E.NOT_LEADER_OR_FOLLOWER
        return found

    brokers.channels.answer = answer
    for number in range(9):
        nursery.start_soon(brokers.writer.finish, epoch, f"id-{number}")
    await trio.sleep(0.01)
    assert sorted(epoch.transactions) == ["id-1", "id-3", "id-5", "id-7"]
    assert sum(sizes) == 9
    assert len(sizes) < 9
    await trio.sleep(3)
    assert epoch.transactions == {}


async def test_broker_gets_four_requests_rest_is_gathered(brokers, nursery, autojump_clock):
    epoch = Epoch(
        **{
            f"id-{number}": decided(TopicPartition("t", 1), producer_id=number)
            for number in range(7)
        }
    )
    call, goes_on = brokers.channels.call, trio.Event()

    async def held(*arguments, **options):
        found = await call(*arguments, **options)
        await goes_on.wait()
        return found

    brokers.channels.call = held
    for number in range(7):
        nursery.start_soon(brokers.writer.finish, epoch, f"id-{number}")
        await trio.sleep(0.001)
    assert [len(request.markers) for _, _, request, _ in brokers.channels.asked] == [1] * 4
    goes_on.set()
    await trio.sleep(0.1)
    assert [len(request.markers) for _, _, request, _ in brokers.channels.asked] == [1] * 4 + [3]
    assert epoch.transactions == {}
