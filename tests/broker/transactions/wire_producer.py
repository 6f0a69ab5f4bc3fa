"""A transactional producer made of single requests, each in the version that the test chooses."""

from __future__ import annotations

from typing import Any

from tests.broker.batches import batch
from tests.broker.calls import Paused, started
from tests.broker.handlers.broker_client import BrokerClient
from trimaran.broker.transactions.verification import TransactionVerifier
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import decode_records
from trimaran.node.replicated.state_machine import Producer
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from trimaran.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from trimaran.wire.messages.end_txn import EndTxnRequest
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from trimaran.wire.messages.find_coordinator import FindCoordinatorRequest
from trimaran.wire.messages.init_producer_id import InitProducerIdRequest
from trimaran.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from trimaran.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

SETTINGS = {
    "offsets_topic_replication_factor": "1",
    "offsets_topic_num_partitions": "2",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_num_partitions": "1",
}


class WireProducer:
    """A producer with transactional id `name`; by default with transaction version 1, as clients before 4.0."""

    def __init__(self, one: BrokerClient, name: str = "x") -> None:
        self.one = one
        self.name = name
        self.producer = Producer(-1, -1)
        self.sequences: dict[tuple[str, int], int] = {}

    async def find(self, key: str | None = None, version: int = 6):
        request = FindCoordinatorRequest(
            key_type=1, coordinator_keys=[self.name if key is None else key]
        )
        return (await self.one.call(request, version)).coordinators[0]

    async def init(self, *, told: Producer | None = None, version: int = 5, timeout_ms=60_000):
        told = Producer(-1, -1) if told is None else told
        answer = await self.one.call(
            InitProducerIdRequest(
                transactional_id=self.name,
                transaction_timeout_ms=timeout_ms,
                producer_id=told.id,
                producer_epoch=told.epoch,
            ),
            version,
        )
        if answer.error_code == 0:
            self.take(answer)
        return answer

    def take(self, answer) -> None:
        self.producer = Producer(answer.producer_id, answer.producer_epoch)
        self.sequences.clear()

    async def begin(self, **init):
        """Waits for the coordinator, then begins."""
        assert (await self.find()).error_code == 0
        assert (await self.init(**init)).error_code == 0

    async def add(self, *partitions: int, topic: str = "t", version: int = 3) -> list[ErrorCode]:
        answer = await self.one.call(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.name,
                v3_and_below_producer_id=self.producer.id,
                v3_and_below_producer_epoch=self.producer.epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))
                ],
            ),
            version,
        )
        (found,) = answer.results_by_topic_v3_and_below
        return [ErrorCode.of(result.partition_error_code) for result in found.results_by_partition]

    async def add_offsets(self, group: str = "g", version: int = 3) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer.id,
            producer_epoch=self.producer.epoch,
            group_id=group,
        )
        return ErrorCode.of((await self.one.call(request, version)).error_code)

    async def produce(
        self,
        value: bytes = b"v",
        partition: int = 0,
        *,
        topic: str = "t",
        version: int = 9,
        name="",
    ) -> ErrorCode:
        """Sends records; `version` 12 and above belong to transaction version 2."""
        sequence = self.sequences.get((topic, partition), 0)
        records = batch(
            value,
            producer_id=self.producer.id,
            producer_epoch=self.producer.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        data = PartitionProduceData(index=partition, records=bytes(records))
        request = ProduceRequest(
            transactional_id=self.name if name == "" else name,
            acks=-1,
            timeout_ms=5000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        answer = await self.one.call(request, version)
        code = ErrorCode.of(answer.responses[0].partition_responses[0].error_code)
        if not code:
            self.sequences[topic, partition] = sequence + 1
        return code

    async def commit_offset(
        self, offset: int, *, group: str = "g", topic: str = "t", version: int = 3, **member
    ) -> ErrorCode:
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=None
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.producer.id,
            producer_epoch=self.producer.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
            **member,
        )
        answer = await self.one.call(request, version)
        return ErrorCode.of(answer.topics[0].partitions[0].error_code)

    async def end(self, *, commit: bool = True, version: int = 4):
        answer = await self.one.call(
            EndTxnRequest(
                transactional_id=self.name,
                producer_id=self.producer.id,
                producer_epoch=self.producer.epoch,
                committed=commit,
            ),
            version,
        )
        if answer.error_code == 0 and version >= 5:
            self.take(answer)
        return ErrorCode.of(answer.error_code)


async def read_committed(
    one: BrokerClient, topic: str = "t", partition: int = 0, *, wait_ms: int = 0
):
    """Returns values that a read_committed consumer sees from the beginning, and the last stable offset."""
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1 if wait_ms else 0,
        isolation_level=1,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
                ],
            )
        ],
    )
    answer = await one.call(request, 12)
    found = answer.responses[0].partitions[0]
    assert found.error_code == 0
    values, aborted = [], {}
    for each in found.aborted_transactions or ():
        aborted.setdefault(each.producer_id, []).append(each.first_offset)
    for each in iter_batches(bytes(found.records or b"")):
        starts = aborted.get(each.producer_id, [])
        if each.is_control:
            if starts and starts[0] <= each.base_offset:
                starts.pop(0)
            continue
        if each.is_transactional and starts and starts[0] <= each.base_offset:
            continue
        values += [record.value for record in decode_records(each)]
    return values, found.last_stable_offset


async def offset_of(one: BrokerClient, group: str = "g", topic: str = "t", *, stable: bool = True):
    """Returns (offset, code) of OffsetFetch for partition 0."""
    asked = OffsetFetchRequestTopics(name=topic, partition_indexes=[0])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=[asked])], require_stable=stable
    )
    found = (await one.call(request, 9)).groups[0].topics[0].partitions[0]
    return found.committed_offset, ErrorCode.of(found.error_code)


def allowed_at_once(verifier: TransactionVerifier, *asked: Any) -> bool:
    """Returns whether Produce is allowed, and without a wait."""
    checking = verifier.checking_produce(*asked)
    found = started(checking)
    checking.close()
    return not isinstance(found, Paused) and not any(found.values())
