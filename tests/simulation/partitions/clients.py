"""Producers, transactions and consumers of the simulation. A client gets a response or none, in which case the outcome
is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import trio

from tests.broker.calls import finished
from tests.simulation.partitions.network import CLIENT, Lost
from tests.simulation.partitions.replica_logs import entries_in
from tests.simulation.slices import slice_of_requests
from trimaran.broker.partitions.end_markers import append_end_marker
from trimaran.broker.partitions.opening import opening
from trimaran.broker.producing.append import append
from trimaran.broker.producing.await_replicas import await_replicas
from trimaran.broker.producing.partition_append import PartitionAppend
from trimaran.log.batches.batch import BatchView, iter_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.producers.marker import EndMarker
from trimaran.node.runtime.errors import NotLeaderError
from trimaran.node.runtime.pacing import run_handling
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from trimaran.wire.messages.header import RequestHeader
from trimaran.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from trimaran.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from trimaran.wire.messages.produce import PartitionProduceResponse
from trimaran.wire.schema import Message
from trimaran.wire.transport.requests.calls import Call, ConnectionInfo

if TYPE_CHECKING:
    from tests.simulation.partitions.broker import SimBroker
    from tests.simulation.partitions.world import World

ALL, LEADER = -1, 1
LATEST, EARLIEST = -1, -2
REQUEST_SECONDS = 0.6
REPLICATION_SECONDS = 0.5
PAUSE_SECONDS = 0.04
# Attempts after which a producer gives up, with an unknown outcome.
ATTEMPTS_MAX = 40
FATAL = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    }
)

Key = tuple[bytes, int]


class Client:
    """The shared part of producers and consumers: leaders from the metadata of a random broker."""

    def __init__(self, world: World) -> None:
        self.world = world

    def leader_of(self, key: Key) -> tuple[SimBroker, int] | None:
        """Returns the leader and its epoch as known to some broker, which may be stale."""
        brokers = [broker for broker in self.world.brokers.values() if broker.is_serving]
        if not brokers:
            return None
        image = self.world.prng.choice(brokers).metadata.image
        topic = image.topics.by_id.get(key[0])
        state = None if topic is None else topic.partitions.get(key[1])
        if state is None or state.leader < 0:
            return None
        return self.world.brokers[state.leader], state.leader_epoch

    async def pause(self) -> None:
        await trio.sleep(self.world.prng.uniform(0.5, 1.5) * PAUSE_SECONDS)


class Producer(Client):
    """An idempotent producer: it resends a batch without a definite response, with the same sequence number."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.producer_id = -1
        self._sequences: dict[Key, int] = {}
        self.is_idle = True

    def begin_anew(self) -> None:
        self.producer_id = self.world.next_number()
        self._sequences = {}

    def batch(self, key: Key, *, is_transactional: bool = False) -> bytes:
        prng = self.world.prng
        values = [
            b"%d" % self.world.next_number() + b"x" * prng.choice((0, 10, 80))
            for _ in range(prng.choice((1, 1, 2, 3)))
        ]
        if self.world.rules.even_batches and self.world.rules.directories > 1:
            values = [b"%08d" % self.world.next_number()]
        time = self.world.now_ms()
        data = build_batch(
            [NewRecord(None, value, time) for value in values],
            producer_id=self.producer_id,
            producer_epoch=0,
            base_sequence=self._sequences.get(key, 0),
            is_transactional=is_transactional,
        )
        self._sequences[key] = self._sequences.get(key, 0) + len(values)
        self.world.checker.sends(key, BatchView(data).crc)
        return bytes(data)

    async def send(self, key: Key, data: bytes, acks: int) -> bool:
        """Sends a batch; returns whether it was acknowledged. If not, the outcome is unknown, and the producer must
        restart.
        """
        crc, is_first = BatchView(data).crc, True
        for _ in range(ATTEMPTS_MAX):
            found = self.leader_of(key)
            if found is None:
                await self.pause()
                continue
            broker, _ = found
            try:
                response = await self.world.network.ask(
                    CLIENT,
                    broker,
                    lambda broker=broker: produce(broker, key, data, acks, crc),
                    REQUEST_SECONDS,
                )
            except Lost:
                is_first = False
                continue
            if not response.error_code:
                return True
            if is_first and response.error_code == ErrorCode.NOT_ENOUGH_REPLICAS:
                self.world.checker.refused(crc)
                self.world.happened["not enough replicas"] += 1
                return False
            if response.error_code in FATAL:
                return False
            is_first = False
            await self.pause()
        return False

    async def run(self) -> None:
        world = self.world
        self.begin_anew()
        while True:
            await trio.sleep(world.prng.expovariate(1 / world.produce_seconds))
            if not (keys := world.keys):
                continue
            key = world.prng.choice(keys)
            acks = ALL if world.prng.random() < world.rules.acks_all else LEADER
            if await self.send(key, self.batch(key), acks):
                world.acked += acks == ALL
            else:
                self.begin_anew()


class Transactions(Producer):
    """A producer of transactions, each with a new producer id and in one partition; as the coordinator, it repeats the
    request until the marker is written.
    """

    async def run(self) -> None:
        world = self.world
        while True:
            await trio.sleep(world.prng.expovariate(1 / world.produce_seconds))
            if not (keys := world.keys):
                continue
            key = world.prng.choice(keys)
            self.begin_anew()
            sent = True
            for _ in range(world.prng.randint(1, 3)):
                sent = sent and await self.send(key, self.batch(key, is_transactional=True), ALL)
                await self.pause()
            await self._end(key, commits=sent and world.prng.random() < 0.6)
            world.happened["transaction"] += 1

    async def _end(self, key: Key, *, commits: bool) -> None:
        # An abort bumps the epoch, which fences batches that are still in flight.
        epoch = 0 if commits else 1
        while key in self.world.checker.histories:
            found = self.leader_of(key)
            if found is not None:
                broker, _ = found
                try:
                    done = await self.world.network.ask(
                        CLIENT,
                        broker,
                        lambda broker=broker: end_transaction(
                            broker, key, self.producer_id, epoch, EndMarker(commits, 1)
                        ),
                        REQUEST_SECONDS,
                    )
                    if done:
                        return
                except Lost:
                    pass
            await self.pause()


class Consumer(Client):
    def __init__(self, world: World, isolation_level: int) -> None:
        super().__init__(world)
        self.isolation_level = isolation_level
        self.positions: dict[Key, int] = {}
        self._epochs: dict[Key, int] = {}
        self._info = ConnectionInfo(
            world.next_number(), "PLAINTEXT", ("consumer", 1), ("broker", 2)
        )

    async def run(self) -> None:
        world = self.world
        while True:
            await trio.sleep(world.prng.uniform(0.01, 0.15))
            if keys := world.keys:
                key = world.prng.choice(keys)
                try:
                    await self._read(key)
                except Lost:
                    continue

    async def _read(self, key: Key) -> None:
        found = self.leader_of(key)
        if found is None:
            return
        broker, epoch = found
        if epoch < self._epochs.get(key, -1):
            return  # like a Java consumer, which never returns to an older epoch
        self._epochs[key] = epoch
        kind = self.world.prng.random()
        if kind < 0.15:
            await self._list(key, broker, epoch, LATEST)
            return
        if kind < 0.25:
            await self._ask_for_epoch(key, broker, epoch)
            return
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=self.isolation_level,
            session_epoch=-1,
            topics=[
                FetchTopic(
                    topic_id=key[0],
                    partitions=[
                        FetchPartition(
                            partition=key[1],
                            current_leader_epoch=epoch,
                            fetch_offset=self.positions.get(key, 0),
                            partition_max_bytes=self.world.prng.choice((1, 300, 1 << 20)),
                        )
                    ],
                )
            ],
        )
        call = Call(RequestHeader(request.KEY, 17, 1, "consumer"), self._info)
        data = await self.world.network.ask(
            CLIENT, broker, lambda: _fetched(broker, request, call), REQUEST_SECONDS
        )
        await self._take(key, broker, epoch, data)

    async def _take(self, key: Key, broker: SimBroker, epoch: int, data: PartitionData) -> None:
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            offset = await self._list(key, broker, epoch, EARLIEST)
            self.positions[key] = max(0, offset)
        elif not data.error_code and (records := entries_in(bytes(data.records or b""))):
            self.positions[key] = max(self.positions.get(key, 0), records[-1].last + 1)
            self.world.happened["records read"] += 1

    async def _list(self, key: Key, broker: SimBroker, epoch: int, timestamp: int) -> int:
        name = self.world.name_of(key)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            topics=[
                ListOffsetsTopic(
                    name=name,
                    partitions=[
                        ListOffsetsPartition(
                            partition_index=key[1], current_leader_epoch=epoch, timestamp=timestamp
                        )
                    ],
                )
            ],
        )
        call = Call(RequestHeader(request.KEY, 10, 1, "consumer"), self._info)
        offset: int = await self.world.network.ask(
            CLIENT, broker, lambda: _listed(broker, key, request, call), REQUEST_SECONDS
        )
        return offset

    async def _ask_for_epoch(self, key: Key, broker: SimBroker, epoch: int) -> None:
        """Requests the end of the epoch, as after a leader change (KIP-320), to detect a truncation."""
        partition = OffsetForLeaderPartition(
            partition=key[1], current_leader_epoch=epoch, leader_epoch=epoch
        )
        topic = OffsetForLeaderTopic(topic=self.world.name_of(key), partitions=[partition])
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])
        call = Call(RequestHeader(request.KEY, 4, 1, "consumer"), self._info)
        await self.world.network.ask(
            CLIENT, broker, lambda: _epoch_told(broker, key, request, call), REQUEST_SECONDS
        )


# --- at the broker


async def _answer(broker: SimBroker, request: Message, call: Call) -> Any:
    """Returns the response of the handler; raises Lost if the process has ended meanwhile."""
    response = await finished(broker.handle(request, call))
    if broker.is_over:
        raise Lost
    return response


async def _read(broker: SimBroker, request: Message, call: Call) -> Any:
    """Returns the decoded response, including items that the handler encoded in advance; raises Lost."""
    response, version = await _answer(broker, request, call), call.header.api_version
    return type(response).decode(response.encode(version), version)


async def _fetched(broker: SimBroker, request: FetchRequest, call: Call) -> PartitionData:
    response = broker.read_records(await _answer(broker, request, call))
    broker.world.checker.look_at(broker)
    broker.world.checker.answered(broker, request, response)
    data: PartitionData = response.responses[0].partitions[0]
    return data


async def _listed(broker: SimBroker, key: Key, request: ListOffsetsRequest, call: Call) -> int:
    response = await _read(broker, request, call)
    found = response.topics[0].partitions[0]
    asked = request.topics[0].partitions[0]
    partition = broker.partitions.find(TopicPartition(request.topics[0].name, key[1]))
    if not found.error_code and partition is not None and partition.topic_id == key[0]:
        broker.world.checker.look_at(broker)
        epoch = partition.state.leader_epoch
        broker.world.checker.require(
            asked.current_leader_epoch == epoch, "P11", broker.id, "lists offsets of", epoch
        )
        if asked.timestamp == LATEST:
            broker.world.checker.tells(key, epoch, found.offset)
    return found.offset


async def _epoch_told(
    broker: SimBroker, key: Key, request: OffsetForLeaderEpochRequest, call: Call
) -> None:
    """Checks that the current epoch ends at the log's end, even before anything was written in it (KAFKA-7415)."""
    response = await _read(broker, request, call)
    found = response.topics[0].partitions[0]
    partition = broker.partitions.find(TopicPartition(request.topics[0].topic, key[1]))
    leader = None if partition is None else partition.leader_or_none
    if not found.error_code and leader is not None:
        broker.world.checker.require(
            (found.leader_epoch, found.end_offset) == (leader.epoch, leader.log.log_end_offset),
            *("P10", broker.id, "says of its epoch", leader.epoch, found),
        )


async def _opened(broker: SimBroker, key: Key) -> str:
    """Opens the log; returns the topic's name. Raises KafkaError."""
    name = broker.partitions.topic_name(key[0])
    keys = [TopicPartition(name, key[1])]
    await run_handling(opening(broker.partitions, keys, for_writing=True))
    return name


async def produce(
    broker: SimBroker, key: Key, data: bytes, acks: int, crc: int
) -> PartitionProduceResponse:
    """Runs the last stages of a Produce request; returns the response."""
    response = PartitionProduceResponse(index=key[1], error_code=0, base_offset=-1)
    named = TopicPartition("", key[1])
    one = PartitionAppend(named, None, memoryview(bytearray(data)), response)
    try:
        name = await _opened(broker, key)
        one.leader = broker.partitions.leader_of(TopicPartition(name, key[1]))
    except KafkaError as error:
        one.fail(error)
        return response
    one.batches = list(iter_batches(one.records))
    with slice_of_requests():
        for _ in append([one], acks, broker.partitions.traffic):
            pass
    if acks == ALL and not one.failed:
        await finished(await_replicas([one], round(REPLICATION_SECONDS * 1000)))
        if not one.failed and broker.alive:
            broker.world.checker.look_at(broker)
            broker.world.checker.acks(key, response.base_offset, crc)
    return response


async def end_transaction(
    broker: SimBroker, key: Key, producer_id: int, epoch: int, marker: EndMarker
) -> bool:
    """Writes a marker like WriteTxnMarkers; returns True once the whole ISR has it, or if it is fenced."""
    try:
        name = await _opened(broker, key)
        leader = broker.partitions.leader_of(TopicPartition(name, key[1]))
        info = append_end_marker(
            leader,
            marker,
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_version=2 if epoch else 1,
            now_ms=broker.world.now_ms(),
        )
    except KafkaError as error:
        return error.code is ErrorCode.INVALID_PRODUCER_EPOCH
    with trio.move_on_after(REPLICATION_SECONDS):
        try:
            await leader.high_watermark.wait_reached(info.last_offset + 1)
        except NotLeaderError:
            return False
        return True
    return False


def delete_records(broker: SimBroker, key: Key) -> None:
    """Deletes records up to a random offset below the watermark, if the broker leads."""
    try:
        leader = broker.partitions.leader_of(TopicPartition(broker.world.name_of(key), key[1]))
        watermark = leader.high_watermark.offset
        if leader.knows_committed and watermark > leader.log.log_start_offset:
            # Deleted records may reappear after a crash, as in Kafka; they must be the committed ones.
            broker.world.checker.look_at(broker)
            start = broker.world.prng.randint(leader.log.log_start_offset, watermark)
            broker.world.checker.deletes(key, start)
            leader.delete_records_before(start)
            broker.world.happened["records deleted"] += 1
    except KafkaError:
        return


def all_of(world: World) -> Sequence[Any]:
    """Returns the clients of a run."""
    producers = [Producer(world) for _ in range(world.rules.producers)]
    transactions = [Transactions(world)] if world.rules.transactions else []
    return [*producers, *transactions, Consumer(world, 0), Consumer(world, 1)]
