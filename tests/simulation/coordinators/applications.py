"""Applications: they write the input, transform it in transactions, and read the output; others commit offsets, or
vanish.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import trio

from tests.simulation.coordinators.client import (
    GROUP,
    CoordinatorClient,
    E,
    GaveUp,
    Refused,
)
from tests.simulation.coordinators.membership import Member, member
from tests.simulation.coordinators.producer import TransactionalProducer
from tests.simulation.coordinators.rules import INPUT
from tests.simulation.partitions.network import Lost
from trimaran.log.batches.batch import BatchView, iter_batches
from trimaran.log.batches.records import NewRecord, build_batch, decode_records
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from trimaran.wire.messages.init_producer_id import InitProducerIdRequest
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from trimaran.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

if TYPE_CHECKING:
    from tests.simulation.coordinators.world import CoordinatorWorld
    from tests.simulation.partitions.checker import Key

READ_COMMITTED = 1
GROUP_ID = "transform"
FETCH_VERSION = 17
FREEZE_SECONDS = (0.6, 2.2)
ABORTED_SHARE = 0.2


class Reading(CoordinatorClient):
    async def fetch(self, key: Key, offset: int, isolation_level: int) -> Any:
        """Returns the leader's response; None if there is none, or an error."""
        found = self.leader_of(key)
        if found is None:
            return None
        request = FetchRequest(
            max_wait_ms=80,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=isolation_level,
            session_epoch=-1,
            topics=[
                FetchTopic(
                    topic_id=key[0],
                    partitions=[
                        FetchPartition(
                            partition=key[1],
                            current_leader_epoch=found[1],
                            fetch_offset=offset,
                            partition_max_bytes=self.world.prng.choice((1, 400, 1 << 20)),
                        )
                    ],
                )
            ],
        )
        try:
            response = await self.ask(found[0], request, FETCH_VERSION)
        except Lost:
            return None
        data = response.responses[0].partitions[0]
        return None if data.error_code else data


class InputProducer(CoordinatorClient):
    """An idempotent producer, like `tests.simulation.partitions.clients.Producer`, but with an id from a broker."""

    # The numbers of records in a batch.
    counts: Sequence[int] = (1, 1, 2)

    async def run(self) -> None:
        while True:
            with suppress(Refused, GaveUp, Lost):
                asked = self.some_broker()
                if asked is not None:
                    request = InitProducerIdRequest(
                        transactional_id=None, transaction_timeout_ms=1000
                    )
                    answer = await self.ask(asked, request, 5)
                    if not answer.error_code:
                        await self._write(answer.producer_id)
            await self.pause()

    async def _write(self, producer_id: int) -> None:
        world, sequences = self.world, dict[Any, int]()
        while True:
            await trio.sleep(world.prng.expovariate(1 / world.produce_seconds))
            key = world.prng.choice(world.input_keys)
            count = world.prng.choice(self.counts)
            values = [b"%d" % world.next_number() for _ in range(count)]
            data = bytes(
                build_batch(
                    [NewRecord(None, value, world.now_ms()) for value in values],
                    producer_id=producer_id,
                    producer_epoch=0,
                    base_sequence=sequences.get(key, 0),
                )
            )
            sequences[key] = sequences.get(key, 0) + len(values)
            crc = BatchView(data).crc
            world.checker.sends(key, crc)
            await self.produce(key, data, crc, None, 11)
            world.acked += 1


class Transformer(Reading):
    """Consumes, transforms and produces: each input record must be in the output exactly once."""

    def __init__(self, world: CoordinatorWorld, number: int, transactional_id: str) -> None:
        super().__init__(world, f"transformer{number}")
        self._producer = TransactionalProducer(world, self.name, transactional_id)
        self._member = member(world, self.name, GROUP_ID, is_consumer=world.rules.consumer_protocol)
        self._positions: dict[int, int] = {}
        # The member id to which the positions belong.
        self._reads_as = ""
        self._must_begin_anew = True
        self._must_abort = False

    async def run(self) -> None:
        self.world.tasks.start(self._member.run)
        while True:
            try:
                await self._turn()
            except (Refused, GaveUp) as failure:
                self.world.say(self.name, "fails:", repr(failure))
                self.world.happened[f"transform failed: {failure or 'gave up'}"] += 1
                self._positions = {}
                await self._recover(failure)
            await self.pause(0.02)

    async def _recover(self, failure: Exception) -> None:
        """Aborts the transaction, or reinitializes the producer after a pause."""
        producer = self._producer
        if isinstance(failure, Refused) and failure.code in (
            *(E.ILLEGAL_GENERATION, E.UNKNOWN_MEMBER_ID, E.STALE_MEMBER_EPOCH),
            *(E.REBALANCE_IN_PROGRESS, E.FENCED_INSTANCE_ID, E.TRANSACTION_ABORTABLE),
        ):
            self._member.owned = set()
            with suppress(Refused, GaveUp):
                await producer.end(is_commit=False)
                return
        self._must_begin_anew = True
        await self.pause(0.3)

    async def _turn(self) -> None:
        if self._must_begin_anew:
            await self._producer.begin_anew()
            self._must_begin_anew = False
        await self._member.settle()
        owned, member_id = set(self._member.owned), self._member.member_id
        if member_id != self._reads_as:
            self._reads_as, self._positions = member_id, {}
        self._positions = {at: position for at, position in self._positions.items() if at in owned}
        if fresh := owned - self._positions.keys():
            self._positions |= await self._member.positions(INPUT, fresh)
        identity = self._member.identity
        found: dict[int, list[tuple[int, bytes]]] = {}
        for index in sorted(owned):
            if records := await self._read(index):
                found[index] = records
        # Otherwise the member was removed meanwhile: the identity is of no member, or of a new one with other
        # partitions.
        if found and identity.generation > 0 and identity.member_id == member_id:
            await self._transform(found, identity)

    async def _read(self, index: int) -> list[tuple[int, bytes]]:
        key = self.world.input_keys[index]
        position = self._positions[index]
        data = await self.fetch(key, position, READ_COMMITTED)
        if data is None:
            return []
        return [
            (record.offset, record.value or b"")
            for batch in iter_batches(memoryview(bytes(data.records or b"")))
            if not batch.is_control
            for record in decode_records(batch)
            if record.offset >= position
        ][:4]

    async def _transform(self, found: dict[int, list[tuple[int, bytes]]], identity: Any) -> None:
        world, producer = self.world, self._producer
        producer.begin()
        offsets = {}
        for index, records in found.items():
            for offset, _ in records:
                what = b"%d:%d" % (index, offset)
                await producer.send(producer.output_for(what), [what])
            offsets[index] = records[-1][0] + 1
        if not world.is_calm and world.prng.random() < world.rules.freeze:
            await self._freeze()
        await producer.commit_offsets(GROUP_ID, identity, INPUT, offsets)
        is_commit = world.is_calm or world.prng.random() >= ABORTED_SHARE
        await producer.end(is_commit=is_commit)
        if is_commit and world.prng.random() < 0.7:
            self._positions |= offsets
        else:
            self._positions = {}

    async def _freeze(self) -> None:
        self.world.happened["frozen"] += 1
        self._member.is_frozen = True
        await trio.sleep(self.world.prng.uniform(*FREEZE_SECONDS))
        self._member.is_frozen = False


class Vanishing(TransactionalProducer):
    """A producer that abandons transactions, which then time out."""

    async def run(self) -> None:
        world = self.world
        while True:
            await self.pause(0.3)
            if world.is_calm:
                return
            with suppress(Refused, GaveUp):
                await self.begin_anew()
                for _ in range(world.prng.choice((1, 2, 3))):
                    self.begin()
                    for _ in range(world.prng.choice((1, 1, 2))):
                        what = b"v%d" % world.next_number()
                        await self.send(self.output_for(what), [what])
                    if world.prng.random() < 0.5:
                        await self.pause(world.prng.choice((0.01, 0.3)))
                        await self.end(is_commit=world.prng.random() < 0.6)
                    else:
                        world.happened["vanished"] += 1
                        break


class Committer(CoordinatorClient):
    """A group member that commits offsets, reads them back, and leaves; each pair of committers has its own group."""

    def __init__(
        self, world: CoordinatorWorld, number: int, name: str = "", group_id: str = ""
    ) -> None:
        super().__init__(world, name or f"committer{number}")
        self._group_id = group_id or f"commit{number // 2}"
        is_consumer = (number // 2 + world.rules.consumer_protocol) % 2 == 1
        self._member: Member = member(
            world,
            self.name,
            self._group_id,
            is_consumer=is_consumer,
            instance_id=self._instance_id(number),
        )

    async def run(self) -> None:
        world, one = self.world, self._member
        world.tasks.start(one.run)
        while not world.is_calm:
            await self.pause(0.1)
            with suppress(Refused, GaveUp):
                await one.settle()
                if one.owned:
                    await self._commit()
                if world.prng.random() < 0.3:
                    await one.positions(INPUT, set(range(world.rules.inputs)))
                if world.prng.random() < 0.05:
                    await one.leave()
                if world.prng.random() < world.rules.freeze / 3:
                    one.is_frozen = True
                    await self.pause(1.5)
                    one.is_frozen = False

    def _instance_id(self, number: int) -> str | None:
        """Returns the static member id, which rivals share; None for dynamic members."""
        rules = self.world.rules
        if not rules.static:
            return None
        return "static" if rules.rivals else f"static{number}"

    async def _commit(self) -> None:
        world, identity = self.world, self._member.identity
        note = f"{self.name}.{world.next_number()}"
        request = OffsetCommitRequest(
            group_id=self._group_id,
            generation_id_or_member_epoch=identity.generation,
            member_id=identity.member_id,
            group_instance_id=self._member.instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=INPUT,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=world.next_number(),
                            committed_metadata=note,
                        )
                        for index in sorted(self._member.owned)
                    ],
                )
            ],
        )
        if not identity.is_consumer:
            world.checker.offsets.told_generations[note] = identity.generation
        await self.ask_coordinator(GROUP, self._group_id, request, 9, attempts=4)
        world.happened["offsets committed"] += 1


class Observer(CoordinatorClient):
    """A client that requests the transformers' offsets, and accepts unstable ones, too."""

    async def run(self) -> None:
        world = self.world
        while not world.is_calm:
            await self.pause(0.08)
            topic = OffsetFetchRequestTopics(
                name=INPUT, partition_indexes=list(range(world.rules.inputs))
            )
            request = OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group_id=GROUP_ID, topics=[topic])],
                require_stable=world.prng.random() < 0.7,
            )
            with suppress(Refused, GaveUp):
                await self.ask_coordinator(GROUP, GROUP_ID, request, 9, attempts=1)


class Reader(Reading):
    """A read_committed consumer of the output; `Checker._are_decided` checks what it receives."""

    async def run(self) -> None:
        positions: dict[Key, int] = {}
        while True:
            await self.pause(0.1)
            key = self.world.prng.choice(self.world.output_keys)
            data = await self.fetch(key, positions.get(key, 0), READ_COMMITTED)
            if data is not None and (records := bytes(data.records or b"")):
                last = [view.last_offset for view in iter_batches(memoryview(records))][-1]
                positions[key] = max(positions.get(key, 0), last + 1)
                self.world.happened["records read"] += 1
