"""AddPartitionsToTxn: results and refusals as a whole, and how long each kind of requester waits."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.broker.calls import finished
from tests.cluster.data_side import partition, topic, topics_image
from trimaran.broker.handlers.add_partitions_to_txn import (
    _added,
    _fail,
    _of_broker,
    _partitions,
    _results,
    _unknown_of,
)
from trimaran.broker.transactions.transaction import EPOCH_BUMP_VERSION
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.replicated.state_machine import Producer
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

E = ErrorCode
ASKED = [
    AddPartitionsToTxnTopic(name="t", partitions=[2, 0]),
    AddPartitionsToTxnTopic(name="u", partitions=[1]),
]
KEYS = [("t", 2), ("t", 0), ("u", 1)]


def results(*codes):
    """Returns the results for the partitions of `ASKED`."""
    told = [
        AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        for (_, index), code in zip(KEYS, codes, strict=True)
    ]
    return [
        AddPartitionsToTxnTopicResult(name="t", results_by_partition=told[:2]),
        AddPartitionsToTxnTopicResult(name="u", results_by_partition=told[2:]),
    ]


class Coordinator:
    """A coordinator that notes its calls; `codes` are the results by transactional id."""

    def __init__(self, unknown=(), verified=None, **codes):
        self.asked = []
        self._unknown = set(unknown)
        self._verified = verified
        self._codes = codes

    def unknown(self, added):
        return self._unknown & set(added)

    async def wait_known(self, missing):
        self.asked.append(("known", set(missing)))
        return missing

    def add_partitions(self, transactional_id, producer, partitions, version):
        self.asked.append(("add", transactional_id, producer, list(partitions), version))
        return self._decided(transactional_id, None)

    def adding_partitions(self, transactional_id, producer, partitions, version):
        self.asked.append(("adding", transactional_id, producer, list(partitions), version))
        yield None
        return self._decided(transactional_id, None)

    def verify_partitions(self, transactional_id, producer, partitions):
        self.asked.append(("verify", transactional_id, producer, list(partitions)))
        verified = self._verified or [E.NONE] * len(partitions)
        return self._decided(transactional_id, dict(zip(partitions, verified, strict=True)))

    def _decided(self, transactional_id, response):
        if transactional_id in self._codes:
            raise KafkaError(self._codes[transactional_id])
        pending = PendingResponse()
        pending.complete(response)
        return pending


async def answers(coordinator, *transactions, version=5):
    asked = SimpleNamespace(header=SimpleNamespace(api_version=version))
    found = await finished(_of_broker(transactions, context(coordinator), asked))
    return found.results_by_transaction


def context(coordinator):
    image = MetadataImage(
        topics=topics_image(
            topic("t", partition(), partition(), partition()), topic("u", partition(), partition())
        )
    )
    return SimpleNamespace(transactions=coordinator, metadata=SimpleNamespace(image=image))


def transaction(name="x", *, verify_only=False, topics=ASKED):
    return AddPartitionsToTxnTransaction(
        transactional_id=name,
        producer_id=7,
        producer_epoch=3,
        verify_only=verify_only,
        topics=topics,
    )


def result_of(name, *codes):
    return AddPartitionsToTxnResult(transactional_id=name, topic_results=results(*codes))


def test_results_follow_order_of_request():
    assert _partitions(ASKED) == KEYS
    codes = dict(zip(KEYS, (E.NONE, E.CONCURRENT_TRANSACTIONS, E.FENCED_LEADER_EPOCH), strict=True))
    assert _results(ASKED, codes.__getitem__) == results(*codes.values())


def test_refusal_format_differs_for_brokers_and_clients():
    code = E.NOT_COORDINATOR
    of_brokers = AddPartitionsToTxnRequest(transactions=[transaction()])
    assert _fail(of_brokers, code, "") == AddPartitionsToTxnResponse(error_code=code)
    of_client = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=7,
        v3_and_below_producer_epoch=3,
        v3_and_below_topics=ASKED,
    )
    assert _fail(of_client, code, "") == AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=results(code, code, code)
    )


async def test_adding_broker_does_not_wait_for_previous_transaction():
    coordinator = Coordinator()
    assert await answers(coordinator, transaction()) == [result_of("x", E.NONE, E.NONE, E.NONE)]
    assert coordinator.asked == [("add", "x", Producer(7, 3), KEYS, EPOCH_BUMP_VERSION)]


async def test_adding_client_waits_as_coordinator_allows():
    coordinator = Coordinator(y=E.CONCURRENT_TRANSACTIONS)
    for name, code in (("x", E.NONE), ("y", E.CONCURRENT_TRANSACTIONS)):
        added = _added(name, Producer(7, 3), KEYS, context(coordinator))
        assert await finished(added) is code
    assert coordinator.asked[0] == ("adding", "x", Producer(7, 3), KEYS, 0)


@pytest.mark.parametrize(
    ("version", "code"), [(4, E.INVALID_TXN_STATE), (5, E.TRANSACTION_ABORTABLE)]
)
async def test_verification_is_answered_per_partition(version, code):
    verified = (E.NONE, E.TRANSACTION_ABORTABLE, E.PRODUCER_FENCED)
    coordinator = Coordinator(unknown=KEYS, verified=verified)
    asked = transaction(verify_only=True)
    found = await answers(coordinator, asked, version=version)
    assert found == [result_of("x", E.NONE, code, E.PRODUCER_FENCED)]
    assert coordinator.asked == [("verify", "x", Producer(7, 3), KEYS)]


@pytest.mark.parametrize("verify_only", [False, True])
async def test_transaction_error_applies_to_each_partition(verify_only):
    coordinator = Coordinator(x=E.INVALID_PRODUCER_ID_MAPPING)
    asked = transaction(verify_only=verify_only)
    found = await answers(coordinator, asked)
    assert found == [result_of("x", *[E.INVALID_PRODUCER_ID_MAPPING] * 3)]


async def test_nothing_is_added_with_one_unknown_partition():
    coordinator = Coordinator(unknown=[("u", 1)])
    found = await answers(coordinator, transaction())
    assert found == [result_of("x", *[E.COORDINATOR_NOT_AVAILABLE] * 3)]
    assert coordinator.asked == [("known", {("u", 1)})]


async def test_only_missing_partitions_are_reported_unknown():
    coordinator = Coordinator()
    gone = [*ASKED[:1], AddPartitionsToTxnTopic(name="u", partitions=[2])]
    asked = transaction(verify_only=True, topics=gone)
    (found,) = await answers(coordinator, asked)
    codes = [
        result.partition_error_code
        for topic_result in found.topic_results
        for result in topic_result.results_by_partition
    ]
    assert codes == [E.OPERATION_NOT_ATTEMPTED] * 2 + [E.UNKNOWN_TOPIC_OR_PARTITION]
    assert coordinator.asked == []
    here = context(coordinator)
    assert _unknown_of(KEYS, here) == {}
    assert _unknown_of([("none", 0), ("u", 1)], here) == {
        ("none", 0): E.UNKNOWN_TOPIC_OR_PARTITION,
        ("u", 1): E.OPERATION_NOT_ATTEMPTED,
    }


async def test_transactions_are_answered_in_request_order():
    """Unknown partitions of all transactions are awaited together."""
    coordinator = Coordinator(unknown=[("u", 1)])
    names = [f"x-{number}" for number in range(501)]
    asked = [transaction(name, verify_only=name != "x-500") for name in names]
    found = await answers(coordinator, *asked)
    expected = [result_of(name, E.NONE, E.NONE, E.NONE) for name in names[:-1]]
    assert found == [*expected, result_of("x-500", *[E.COORDINATOR_NOT_AVAILABLE] * 3)]
    assert coordinator.asked[0] == ("known", {("u", 1)})
    assert len(coordinator.asked) == 501
