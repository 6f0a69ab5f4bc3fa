"""Requests to coordinators on other brokers, their retries, and the client's error code for each response."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio

from tests.broker.calls import finished
from tests.broker.transactions.channels import Channels
from tests.broker.transactions.rig import ELSEWHERE, HERE, NAME, THERE, Rig, open_rig
from tests.checks import check_each
from tests.cluster.data_side import partition, topic
from trimaran.broker.channels.broker_channel import NotSent, OutcomeUnknown
from trimaran.broker.transactions.limits import TransactionLimits
from trimaran.broker.transactions.ports import TRANSACTION_TOPIC
from trimaran.broker.transactions.verification import TransactionVerifier
from trimaran.node.replicated.state_machine import Producer
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

E = ErrorCode
WHO = Producer(70, 7)
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
# Versions of Produce and of TxnOffsetCommit, each of which lets a client understand more error codes.
NOTHING, ABORTABLE, ADDING = 10, 11, 12
OF_OFFSETS = {NOTHING: 3, ABORTABLE: 4, ADDING: 5}
# By a coordinator's code: the codes of Produce for clients of the versions above, and those of TxnOffsetCommit.
TOLD = {
    E.NONE: ((E.NONE,) * 3, (E.NONE,) * 3),
    E.TRANSACTION_ABORTABLE: (
        (E.INVALID_TXN_STATE, E.TRANSACTION_ABORTABLE, E.TRANSACTION_ABORTABLE),
        (E.INVALID_TXN_STATE, E.TRANSACTION_ABORTABLE, E.TRANSACTION_ABORTABLE),
    ),
    E.PRODUCER_FENCED: ((E.INVALID_PRODUCER_EPOCH,) * 3, (E.INVALID_PRODUCER_EPOCH,) * 3),
    E.CONCURRENT_TRANSACTIONS: (
        (E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS, E.CONCURRENT_TRANSACTIONS),
        (
            E.COORDINATOR_LOAD_IN_PROGRESS,
            E.COORDINATOR_LOAD_IN_PROGRESS,
            E.CONCURRENT_TRANSACTIONS,
        ),
    ),
    **{
        code: ((E.NOT_ENOUGH_REPLICAS,) * 3, (code,) * 3)
        for code in (
            E.NETWORK_EXCEPTION,
            E.COORDINATOR_LOAD_IN_PROGRESS,
            E.COORDINATOR_NOT_AVAILABLE,
            E.NOT_COORDINATOR,
        )
    },
    **{
        code: ((code,) * 3, (code,) * 3)
        for code in (E.INVALID_PRODUCER_ID_MAPPING, E.INVALID_TXN_STATE, E.REQUEST_TIMED_OUT)
    },
}


def response(request, codes, default=E.NONE):
    """Returns a response with the code of each requested partition."""
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name=found.name,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(
                                partition_index=index,
                                partition_error_code=codes.get((found.name, index), default),
                            )
                            for index in found.partitions
                        ],
                    )
                    for found in transaction.topics
                ],
            )
            for transaction in request.transactions
        ]
    )


class Verifying:
    """A verifier on a broker whose coordinator leads no partition; broker `THERE` leads them."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.enabled = True
        self.codes: list[dict] = []
        self.failure: Exception | None = None
        self.channels = Channels(5, self.answer)
        self.verifier = TransactionVerifier(
            HERE, rig.coordinator, self.channels, rig.metadata, 3.5, lambda: self.enabled
        )
        self.led_by(THERE)

    def led_by(self, broker_id: int) -> None:
        topics = [topic("t", *[partition()] * 2), topic("u", partition())]
        coordinated = partition((HERE, THERE), leader=broker_id)
        self.rig.metadata.set(topic(TRANSACTION_TOPIC, coordinated), *topics)

    def answer(self, _broker_id, request):
        if self.failure is not None:
            raise self.failure
        codes = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
        return response(request, codes)

    async def produce(self, version, *partitions):
        checking = self.verifier.checking_produce(NAME, WHO, partitions or [T0], version)
        return await finished(checking)

    async def commit(self, version):
        return await finished(self.verifier.checking_offset_commit(NAME, WHO, T0, version))


@pytest.fixture
async def verifying(tmp_path, nursery):
    limits = TransactionLimits(add_retry_ms=30, add_retry_ms_max=100)
    async with open_rig(tmp_path, leads=False, limits=limits) as rig:
        one = Verifying(rig)
        await nursery.start(one.verifier.run)
        yield one


async def test_coordinator_codes_are_translated_for_clients(verifying, autojump_clock):
    found = {}
    for code in TOLD:
        verifying.codes = [{T0: code}]
        versions = (NOTHING, ABORTABLE, ADDING)
        produced = [(await verifying.produce(version))[T0] for version in versions]
        committed = [await verifying.commit(OF_OFFSETS[version]) for version in versions]
        found[code] = (tuple(produced), tuple(committed))
    check_each(TOLD, lambda code: _equal(found[code], TOLD[code]))


def _equal(found, expected):
    assert found == expected


async def test_verification_request_names_producer_and_mode(verifying, autojump_clock):
    verifying.codes = [{T1: E.INVALID_TXN_STATE, U0: E.UNKNOWN_TOPIC_OR_PARTITION}]
    for version, verify_only in ((NOTHING, True), (ABORTABLE, True), (ADDING, False)):
        verifying.channels.asked.clear()
        assert await verifying.produce(version, U0, T1, T0) == {
            T0: E.NONE,
            T1: E.INVALID_TXN_STATE,
            U0: E.UNKNOWN_TOPIC_OR_PARTITION,
        }
        ((_, broker_id, request, seconds),) = verifying.channels.asked
        (one,) = request.transactions
        assert (broker_id, seconds) == (THERE, 3.5)
        assert (one.transactional_id, one.producer_id, one.producer_epoch) == (NAME, 70, 7)
        assert one.verify_only == verify_only
        assert [(each.name, each.partitions) for each in one.topics] == [("t", [0, 1]), ("u", [0])]


async def test_ending_transaction_is_retried_until_deadline(verifying, autojump_clock):
    """Only additions are retried: every `add_retry_ms` while the transaction ends, for up to `add_retry_ms_max`."""
    verifying.codes = [{T0: E.CONCURRENT_TRANSACTIONS}]
    assert await verifying.produce(ADDING) == {T0: E.CONCURRENT_TRANSACTIONS}
    assert verifying.channels.times() == [0, 30, 60, 90]
    verifying.codes = [{T1: E.CONCURRENT_TRANSACTIONS}, {}]
    assert await verifying.produce(ADDING, T0, T1) == {T0: E.NONE, T1: E.NONE}
    assert len(verifying.channels.asked) == 4 + 2
    verifying.codes = [{T0: E.CONCURRENT_TRANSACTIONS}]
    await verifying.produce(ABORTABLE)
    assert len(verifying.channels.asked) == 4 + 2 + 1


async def test_unreachable_coordinator_counts_as_missing(verifying, autojump_clock):
    unreached = E.NETWORK_EXCEPTION
    for failure in (NotSent("no connection"), OutcomeUnknown("no answer")):
        verifying.failure = failure
        assert await verifying.commit(5) == unreached
    verifying.failure = None
    verifying.codes = [{}]

    def of_another(_broker_id, request):
        answer = response(request, {})
        answer.results_by_transaction[0].transactional_id = "another"
        return answer

    def of_one(_broker_id, request):
        answer = response(request, {})
        del answer.results_by_transaction[0].topic_results[0].results_by_partition[1:]
        return answer

    verifying.channels.answer = of_another
    assert await verifying.commit(5) == unreached
    verifying.channels.answer = of_one
    assert await verifying.produce(ADDING, T0, T1) == {T0: E.NONE, T1: E.NOT_ENOUGH_REPLICAS}


async def test_top_level_code_applies_to_each_partition(verifying, autojump_clock):
    for code, expected in (
        (E.CLUSTER_AUTHORIZATION_FAILED, E.INVALID_TXN_STATE),
        (E.UNSUPPORTED_VERSION, E.UNSUPPORTED_VERSION),
    ):
        verifying.channels.answer = lambda _id, _request, code=code: AddPartitionsToTxnResponse(
            error_code=code, results_by_transaction=[]
        )
        assert await verifying.produce(ADDING, T0, U0) == {T0: expected, U0: expected}


async def test_id_partition_without_leader_has_no_coordinator(verifying, autojump_clock):
    verifying.led_by(-1)
    assert await verifying.commit(4) == E.COORDINATOR_NOT_AVAILABLE
    verifying.rig.metadata.set(topic("t", partition()))
    assert await verifying.commit(4) == E.COORDINATOR_NOT_AVAILABLE
    verifying.led_by(ELSEWHERE)
    verifying.codes = [{}]
    assert await verifying.commit(4) == E.NONE
    assert [broker_id for _, broker_id, *_ in verifying.channels.asked] == [ELSEWHERE]


async def test_disabled_verification_still_checks_implicit_additions(verifying, autojump_clock):
    verifying.enabled = False
    verifying.codes = [{T0: E.INVALID_TXN_STATE}]
    for version in (NOTHING, ABORTABLE):
        assert await verifying.produce(version, T0, T1) == {T0: E.NONE, T1: E.NONE}
        assert await verifying.commit(OF_OFFSETS[version]) == E.NONE
    assert verifying.channels.asked == []
    assert await verifying.produce(ADDING) == {T0: E.INVALID_TXN_STATE}


async def test_ending_local_transaction_is_awaited_equally(tmp_path, nursery, mock_clock):
    limits = replace(TransactionLimits(), add_retry_ms=30, add_retry_ms_max=100)
    async with open_rig(tmp_path, limits=limits) as rig:
        one = Verifying(rig)
        one.led_by(HERE)
        mock_clock.autojump_threshold = 0
        who = await rig.begin()

        async def verify(*asked):
            return await finished(one.verifier.checking_produce(*asked))

        assert await verify(NAME, who, [T0, T1], ABORTABLE) == {
            T0: E.NONE,
            T1: E.TRANSACTION_ABORTABLE,
        }
        assert await verify(NAME, who, [TopicPartition("gone", 0)], ADDING) == {
            TopicPartition("gone", 0): E.NOT_ENOUGH_REPLICAS
        }
        await rig.end(who)
        next_one = who._replace(epoch=who.epoch + 1)
        began = _now_ms()
        assert await verify(NAME, next_one, [T0], ADDING) == {T0: E.CONCURRENT_TRANSACTIONS}
        assert _now_ms() - began == 100
        rig.markers.goes_on.set()
        assert await verify(NAME, next_one, [T0], ADDING) == {T0: E.NONE}
        other = next_one._replace(epoch=9)
        assert await verify(NAME, other, [T0], ADDING) == {T0: E.INVALID_PRODUCER_EPOCH}
        assert one.channels.asked == []


def _now_ms():
    return round(trio.current_time() * 1000)
