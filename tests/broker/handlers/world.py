"""A broker that has every kind of state, for transcripts of its responses: see `World`. Its log storage is real;
the image is given, and the results of topic creation are scripted.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import trio
from immutables import Map

from tests.broker.batches import batch
from tests.cluster.data_side import (
    DIRECTORY,
    open_harness,
    partition,
    registration,
    replaced,
    topic,
)
from tests.interop.authorization.making import make
from trimaran.broker.handlers.registry import broker_registry
from trimaran.broker.metadata.client_quotas import ClientQuotas
from trimaran.broker.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from trimaran.log.batches.batch import iter_batches
from trimaran.quorum.metadata import versions
from trimaran.quorum.metadata.acls import Acl
from trimaran.quorum.metadata.authorizer import AclIndex, Authorizer
from trimaran.quorum.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ClusterImage,
    FeaturesImage,
)
from trimaran.quorum.raft_log.partition import TOPIC_ID as METADATA_ID
from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.errors import CloseConnection, ErrorCode, KafkaError
from trimaran.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from trimaran.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from trimaran.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from trimaran.wire.messages.header import (
    decode_request_header,
    decode_response_header,
    encode_request,
    encode_response,
)
from trimaran.wire.messages.registry import REQUESTS, RESPONSES
from trimaran.wire.schema import Message
from trimaran.wire.security.acls import Operation, PatternType, Permission, ResourceType
from trimaran.wire.security.principal import Principal
from trimaran.wire.text.endpoint import Endpoint
from trimaran.wire.transport.requests.calls import ConnectionInfo

BY_NAME = {request.__name__.removesuffix("Request"): request for request in REQUESTS.values()}
REGISTRY = broker_registry()
LOST_DIRECTORY = bytes(15) + b"\x08"
NOW_MS = 1_700_000_000_000
HERE, BESIDE, FENCED, ELSEWHERE = 11, 12, 13, 14
Op, Kind = Operation, ResourceType
# The rights of each user; `root` may do everything. Without a user there is no authorizer.
RIGHTS: dict[str, dict[tuple[ResourceType, str], tuple[Operation, ...]]] = {
    "alice": {
        (Kind.TOPIC, "t"): (Op.READ, Op.WRITE, Op.DELETE),
        (Kind.TOPIC, "u"): (Op.DESCRIBE,),
        (Kind.TOPIC, "none"): (Op.READ, Op.WRITE, Op.DELETE),
        (Kind.TOPIC, CONSUMER_OFFSETS): (Op.READ, Op.WRITE),
        (Kind.GROUP, "h"): (Op.READ, Op.DELETE),
        (Kind.TRANSACTIONAL_ID, "x"): (Op.WRITE,),
    },
    "bob": {
        (Kind.TOPIC, "t"): (Op.DESCRIBE,),
        (Kind.GROUP, "h"): (Op.DESCRIBE,),
        (Kind.TRANSACTIONAL_ID, "x"): (Op.DESCRIBE,),
    },
    "carol": {
        (Kind.TOPIC, "fresh"): (Op.DESCRIBE, Op.CREATE),
        (Kind.TOPIC, "fresh-2"): (Op.DESCRIBE,),
        (Kind.TOPIC, "bad/name"): (Op.DESCRIBE,),
    },
    "dave": {
        (Kind.CLUSTER, "kafka-cluster"): (Op.CREATE, Op.DESCRIBE, Op.IDEMPOTENT_WRITE),
        (Kind.TOPIC, "*"): (Op.DESCRIBE,),
    },
    "erin": {(Kind.CLUSTER, "kafka-cluster"): (Op.CLUSTER_ACTION,)},
    "gina": {(Kind.GROUP, "*"): (Op.READ,), (Kind.TOPIC, "t"): (Op.DESCRIBE,)},
    "frank": {(Kind.GROUP, "*"): (Op.DESCRIBE,), (Kind.TOPIC, "t"): (Op.DESCRIBE,)},
    "harry": {
        (Kind.TOPIC, "t"): (Op.DESCRIBE_CONFIGS,),
        (Kind.GROUP, "h"): (Op.DESCRIBE_CONFIGS,),
    },
    "ivy": {(Kind.CLUSTER, "kafka-cluster"): (Op.DESCRIBE_CONFIGS,)},
    "nobody": {},
}
_epochs = itertools.count(1)


def authorizer_of(name: str) -> Authorizer:
    made = Authorizer(["User:root"])
    made._index = AclIndex.of(
        Acl(kind, resource, PatternType.LITERAL, f"User:{name}", "*", operation, Permission.ALLOW)
        for (kind, resource), operations in RIGHTS.get(name, {}).items()
        for operation in operations
    )
    made.complete_initial_load()
    made.epoch = next(_epochs)
    return made


class Topics:
    """Reports each topic as created, or the result in `creates`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.asked: list[tuple[tuple[str, ...], bool]] = []

    async def create(self, names: Iterable[str], call: Any = None) -> dict[str, ErrorCode]:
        await trio.lowlevel.checkpoint()
        names = list(names)
        self.asked.append((tuple(names), call is not None))
        return {name: self.world.creates.get(name, ErrorCode.NONE) for name in names}


class Controller:
    """Accepts every forwarded request as done, commits nothing to the metadata log, and has one producer id."""

    def __init__(self) -> None:
        self.taken: list[Any] = []

    async def call(self, request: Any, *, timeout: float) -> Message:  # noqa: ASYNC109
        del timeout
        await trio.lowlevel.checkpoint()
        if isinstance(request, AllocateProducerIdsRequest):
            return AllocateProducerIdsResponse(
                error_code=ErrorCode.NONE, producer_id_start=4000, producer_id_len=1
            )
        if isinstance(request, FetchRequest):
            partition = PartitionData(partition_index=0, high_watermark=0, records=None)
            topic = FetchableTopicResponse(topic_id=METADATA_ID, partitions=[partition])
            return FetchResponse(responses=[topic])
        return self._take(request)

    def _take(self, envelope: EnvelopeRequest) -> EnvelopeResponse:
        frame = memoryview(bytearray(envelope.request_data))
        header, start = decode_request_header(frame)
        request = REQUESTS[header.api_key].decode(frame[start:], header.api_version)
        self.taken.append(request)
        answer = make(RESPONSES[header.api_key], _all_done(request), header.api_version)
        data = encode_response(answer, header.api_version, header.correlation_id)
        return EnvelopeResponse(response_data=bytes(data), error_code=ErrorCode.NONE)


def _all_done(request: Any) -> dict[str, Any]:
    match type(request).__name__:
        case "CreateTopicsRequest":
            return {"topics": [{"name": topic.name} for topic in request.topics]}
        case "DeleteTopicsRequest":
            return {"responses": [{"name": topic_name} for topic_name in request.topic_names]}
    return {
        "responses": [
            {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
            for resource in request.resources
        ]
    }


class Stored:
    """Offsets as ZooKeeper stores them: only numbers, by group and partition."""

    def __init__(self) -> None:
        self.offsets: dict[str, dict[Any, int | None]] = {}
        self.error: KafkaError | None = None

    async def commit(self, group: str, offsets: dict[Any, int]) -> None:
        await trio.lowlevel.checkpoint()
        if self.error:
            raise self.error
        self.offsets.setdefault(group, {}).update(offsets)

    async def fetch(self, group: str, partitions: list[Any]) -> dict[Any, int | None]:
        await trio.lowlevel.checkpoint()
        if self.error:
            raise self.error
        known = self.offsets.get(group, {})
        return {key: known[key] for key in partitions if key in known}


class World:
    """Broker 11 leads most of `t`, `u`, `secret` and the partitions of groups and transactions.

    Broker 12 is alive, 13 is fenced, and 14 has only the client listener EXTERNAL. Groups `h` and `j` and transactional
    ids `x` and `z` belong to broker 11; group `g` to broker 12 and transactional id `y` to broker 13.
    """

    def __init__(self, path: Path, nursery: trio.Nursery, **settings: str) -> None:
        settings = {
            "offsets_topic_num_partitions": "2",
            "transaction_state_log_num_partitions": "2",
            **settings,
        }
        self.controller = Controller()
        self.harness = open_harness(
            path, controller=self.controller, now_ms=lambda: NOW_MS, **settings
        )
        self.nursery = nursery
        self.creates: dict[str, ErrorCode] = {}
        self.topics = Topics(self)
        self.zookeeper = Stored()
        self.contexts = replaced(
            self.harness.contexts,
            quotas=ClientQuotas(now=lambda: 1000.0),
            topic_creation=self.topics,
        )

    async def start(self) -> None:
        nursery = self.nursery
        nursery.start_soon(self.harness.group_commit.run)
        await nursery.start(self.harness.families.groups.runtime.run)
        transactions = self.harness.families.transactions
        await nursery.start(transactions.markers.run)
        await nursery.start(transactions.coordinator.runtime.run)
        self._set_image()
        self._append()
        await self.harness.families.groups.wait_loaded()

    def set_image(self, **changes: Any) -> None:
        """Changes parts of the image that affect no partition."""
        metadata = self.harness.metadata
        metadata.set(replace(metadata.image, **changes))

    # -- commands after `given` in a transcript

    def given_created(self, name: str, code: str) -> None:
        """Sets the result of creating that topic."""
        self.creates[name] = ErrorCode[code]

    def given_stored(self, group: str, name: str, index: str) -> None:
        """Stores data in ZooKeeper for the partition that is not an offset."""
        self.zookeeper.offsets[group][name, int(index)] = None

    def given_quota(self, kind: str, rate: str) -> None:
        """Sets the quota of each user, in bytes a second."""
        getattr(self.contexts.data.quotas, kind).set_limits({(("user", None),): float(rate)})

    def given_cordoned(self) -> None:
        self.harness.directories.cordoned = lambda: {self.harness.directory.path}

    def given_failed(self) -> None:
        self.harness.directory.health.fail("the disk is gone")

    async def given_settled(self) -> None:
        """Waits until no decided transaction waits for its markers."""
        listing = {"state_filters": ["PrepareCommit", "PrepareAbort"]}
        while (await self.ask("ListTransactions", 0, listing)).transaction_states:  # noqa: ASYNC110
            await trio.sleep(0.005)  # as a retrying client

    def given_gone(self, name: str) -> None:
        topics = self.harness.metadata.image.topics
        gone = topics.by_name[name]
        self.set_image(
            topics=replace(
                topics, by_name=topics.by_name.delete(name), by_id=topics.by_id.delete(gone.id)
            )
        )

    def given_fenced(self, *brokers: str) -> None:
        """Fences exactly these brokers."""
        known = self.harness.metadata.image.cluster.brokers
        changed = {
            broker_id: replace(known[broker_id], fenced=str(broker_id) in brokers)
            for broker_id in known
        }
        self.set_image(cluster=ClusterImage(brokers=Map(changed)))

    def given_zookeeper(self, error: str = "NONE") -> None:
        """Makes ZooKeeper answer with `error` from now on, if it is one."""
        code = ErrorCode[error]
        self.zookeeper.error = KafkaError(code) if code else None
        self.contexts = replaced(self.contexts, zookeeper_offsets=self.zookeeper)  # type: ignore[arg-type]

    def given_config(self, name: str, value: str) -> None:
        """Sets a dynamic config of this broker."""
        configs = self.harness.metadata.image.configs
        own = (BROKER_RESOURCE, str(HERE))
        known = configs.by_resource.get(own, Map()).set(name, value)
        self.set_image(configs=replace(configs, by_resource=configs.by_resource.set(own, known)))

    def given_metadata_version(self, version: str) -> None:
        features = self.harness.metadata.image.features
        self.set_image(features=replace(features, metadata_version=int(version)))

    def given_level(self, name: str, level: str) -> None:
        features = self.harness.metadata.image.features
        levels = (
            features.levels.set(name, int(level)) if int(level) else features.levels.delete(name)
        )
        self.set_image(features=replace(features, levels=levels))

    def _set_image(self) -> None:
        away = Endpoint("EXTERNAL", "away.example", 19)
        brokers = (
            registration(HERE, 9011, rack="r1", directories=(DIRECTORY,)),
            registration(
                BESIDE,
                9012,
                listeners=(Endpoint("PLAINTEXT", "beside", 9012), away),
                directories=(DIRECTORY,),
            ),
            registration(FENCED, 9013, fenced=True, rack="r3"),
            registration(ELSEWHERE, listeners=(away,)),
        )
        both = (HERE, BESIDE)
        self.harness.set_image(
            topic(
                "t",
                partition(leader_epoch=3),
                partition(both, isr=(HERE,), leader_epoch=5, elr=(BESIDE,)),
                partition((BESIDE, HERE), leader_epoch=7, partition_epoch=2),
                partition(
                    (BESIDE, FENCED),
                    leader_epoch=8,
                    isr=(BESIDE,),
                    directories=(LOST_DIRECTORY, DIRECTORY),
                ),
            ),
            topic(
                "u",
                partition((FENCED, BESIDE), leader=FENCED, last_known_elr=(FENCED, BESIDE)),
                partition((ELSEWHERE,), leader_epoch=2),
                partition(both, leader=-1, isr=(), elr=both),
            ),
            topic("secret", partition(leader_epoch=1)),
            topic("compact", partition(leader_epoch=1)),
            topic(CONSUMER_OFFSETS, partition(), partition((BESIDE,), leader_epoch=4)),
            topic(TRANSACTION_STATE, partition(), partition((FENCED,))),
            brokers=brokers,
            configs={
                (TOPIC_RESOURCE, "compact"): {"cleanup.policy": "compact"},
                (TOPIC_RESOURCE, "t"): {"retention.ms": "-1"},
                (GROUP_RESOURCE, "h"): {"consumer.session.timeout.ms": "50000"},
                (CLIENT_METRICS_RESOURCE, "m"): {"interval.ms": "1000"},
                (BROKER_RESOURCE, "11"): {"log.cleaner.threads": "2"},
            },
        )
        features = FeaturesImage(versions.LATEST, Map({"group.version": 1}))
        self.set_image(features=features)

    def _append(self) -> None:
        """Appends five offsets to `t-0`, the last two in an open transaction, and one to `t-1`; other logs stay
        empty.
        """
        times = (10, 30, 20)
        for time in times:
            self.append("t", 0, timestamp_ms=NOW_MS - 1000 + time)
        self.append(
            "t",
            0,
            b"x",
            b"y",
            timestamp_ms=NOW_MS - 900,
            producer_id=70,
            producer_epoch=2,
            base_sequence=0,
            is_transactional=True,
        )
        self.append(
            "t", 1, timestamp_ms=NOW_MS - 5, producer_id=71, producer_epoch=0, base_sequence=8
        )
        self.harness.flush()

    def append(self, name: str, index: int, *values: bytes, **fields: Any) -> None:
        data, leader = batch(*(values or (b"value",)), **fields), self.harness.leader(name, index)
        assert leader.log.producers is not None  # as before each Produce
        leader.append(data, list(iter_batches(data)))

    # -- requests

    async def ask(
        self,
        api: str,
        version: int,
        values: dict[str, Any],
        *,
        name: str = "",
        listener: str = "PLAINTEXT",
        heavy: bool = False,
    ) -> Any:
        """Returns the decoded response to a request on `name`'s connection, or the reason if that is closed."""
        contexts = replaced(self.contexts, authorizer=authorizer_of(name) if name else None)
        asking = ConnectionInfo(1, listener, ("10.1.2.3", 4567), ("127.0.0.1", 2))
        asking.principal = Principal(name or "ANONYMOUS")
        request = make(BY_NAME[api], values, version)
        frame = memoryview(bytearray(encode_request(request, version, 7, "c")))
        try:
            if heavy:
                answer: Any = await REGISTRY.dispatch_heavy(frame, contexts, asking)
            else:
                answer = REGISTRY.dispatch(frame, contexts, asking)
            if hasattr(answer, "finish"):
                answer = await answer.finish()
        except CloseConnection as closed:
            return f"closed: {closed}"
        if answer is None:
            return "no answer"
        data = _with_files(answer)
        _, body = decode_response_header(data, request.KEY, version)
        return RESPONSES[request.KEY].decode(data[body:], version)


def _with_files(answer: Outgoing) -> bytes:
    """Replaces pieces of files with their content."""
    out, before = bytearray(), 0
    for place, piece in getattr(answer, "splices", ()):
        out += answer[before:place] + os.pread(piece.fileno(), piece.size, piece.position)
        before = place
    return bytes(out + answer[before:])


@asynccontextmanager
async def open_world(path: Path, **settings: str) -> AsyncIterator[World]:
    async with trio.open_nursery() as nursery:
        world = World(path, nursery, **settings)
        await world.start()
        try:
            yield world
        finally:
            nursery.cancel_scope.cancel()
            world.harness.directory.close(broker_epoch=None)
