"""A transactional producer like Kafka's: it sends one request at a time, and repeats it until there is a response. With
`bumps` it uses the protocol of `transaction.version` 2 (KIP-890): leaders add partitions to transactions, and every end
bumps the epoch. Otherwise it uses that of version 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.coordinators.client import (
    GROUP,
    TRANSACTION,
    CoordinatorClient,
)
from tests.simulation.coordinators.membership import Identity
from trimaran.broker.coordination.runtime import partition_for
from trimaran.log.batches.batch import BatchView
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from trimaran.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from trimaran.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from trimaran.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from trimaran.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.simulation.coordinators.world import CoordinatorWorld
    from tests.simulation.partitions.checker import Key


class TransactionalProducer(CoordinatorClient):
    """A transactional producer; `transaction` identifies the open transaction in everything that it writes."""

    def __init__(self, world: CoordinatorWorld, name: str, transactional_id: str) -> None:
        super().__init__(world, name)
        self.transactional_id = transactional_id
        self.bumps = world.rules.bumps
        self.producer_id, self.epoch = -1, -1
        self.transaction = ""
        self._sequences: dict[Key, int] = {}
        self._added: set[Key] = set()

    async def begin_anew(self) -> None:
        """Sends InitProducerId, which fences the previous producer with this id. Raises Refused, GaveUp."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.world.rules.transaction_ms,
        )
        answer = await self.ask_coordinator(TRANSACTION, self.transactional_id, request, 5)
        self._is_now(answer)
        self._added = set()

    def _is_now(self, answer: InitProducerIdResponse | EndTxnResponse) -> None:
        if self.producer_id >= 0 and answer.producer_id != self.producer_id:
            self.world.happened["epochs used up"] += 1
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self._sequences = {}

    def begin(self) -> None:
        self.transaction = f"{self.name}.{self.world.next_number()}"
        self._added = set()

    async def send(self, key: Key, values: Sequence[bytes]) -> None:
        """Sends values in the open transaction. Raises Refused, GaveUp."""
        if not self.bumps and key not in self._added:
            await self._add(key)
        named = [b"%s/%s" % (value, self.transaction.encode()) for value in values]
        time = self.world.now_ms()
        data = bytes(
            build_batch(
                [NewRecord(None, value, time) for value in named],
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=self._sequences.get(key, 0),
                is_transactional=True,
            )
        )
        self._sequences[key] = self._sequences.get(key, 0) + len(named)
        crc = BatchView(data).crc
        self.world.checker.sends(key, crc)
        await self.produce(key, data, crc, self.transactional_id, 12 if self.bumps else 11)
        for value in named:
            self.world.checker.outcomes.acked(value)

    async def _add(self, key: Key) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=self.world.name_of(key), partitions=[key[1]])
            ],
        )
        await self.ask_coordinator(TRANSACTION, self.transactional_id, request, 3)
        self._added.add(key)

    async def commit_offsets(
        self, group_id: str, identity: Identity, topic: str, offsets: Mapping[int, int]
    ) -> None:
        """Raises Refused, GaveUp."""
        if not self.bumps:
            added = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                group_id=group_id,
            )
            await self.ask_coordinator(TRANSACTION, self.transactional_id, added, 3)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            generation_id_or_member_epoch=identity.generation,
            member_id=identity.member_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=offset,
                            committed_metadata=self.transaction,
                        )
                        for index, offset in offsets.items()
                    ],
                )
            ],
        )
        if not identity.is_consumer:
            told = self.world.checker.offsets.told_generations
            told[self.transaction] = identity.generation
        await self.ask_coordinator(GROUP, group_id, request, 5 if self.bumps else 4)

    async def end(self, *, is_commit: bool) -> None:
        """Raises Refused, GaveUp."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_commit,
        )
        answer = await self.ask_coordinator(
            TRANSACTION, self.transactional_id, request, 5 if self.bumps else 4
        )
        self.world.checker.outcomes.told(self.transaction, is_commit)
        if self.bumps:
            self._is_now(answer)
        self.world.happened["transaction" if is_commit else "transaction aborted"] += 1

    def output_for(self, what: bytes) -> Key:
        """Returns the partition of the output for the value."""
        keys = self.world.output_keys
        return keys[partition_for(what.decode(), len(keys))]
