"""A coordinator over real logs; the test controls the leadership and the commits of their partitions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import trio
from immutables import Map

from tests.broker.coordination.leader import Leader, open_log
from trimaran.broker.coordination.runtime import partition_for
from trimaran.broker.coordination.shard_epoch import ShardEpoch, ShardState
from trimaran.broker.groups.coordinator import GroupCoordinator
from trimaran.broker.groups.kinds import GroupKind
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.records import OFFSETS_TOPIC
from trimaran.broker.groups.registry import KINDS
from trimaran.broker.share_state.states import ShareStates
from trimaran.quorum.metadata.image import (
    BrokerRegistration,
    ClusterImage,
    FeaturesImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
    TopicsImage,
)
from trimaran.wire.messages.header import decode_response_header, encode_request
from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.text.endpoint import Endpoint
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.dispatch.running import RunningRequest
from trimaran.wire.transport.requests.calls import ConnectionInfo

NODE_ID = 1
LISTENER = "CLIENT"
TOPIC_ID = b"topic-id-of-t---"


def topic_image(name: str, topic_id: bytes, count: int, leader: int = NODE_ID) -> TopicImage:
    partition = PartitionImage((leader,), (bytes(16),), (leader,), leader=leader)
    return TopicImage(name, topic_id, Map(dict.fromkeys(range(count), partition)))


def cluster_image(*topics: TopicImage) -> MetadataImage:
    """Returns an image with one unfenced broker, `NODE_ID`, and these topics."""
    broker = BrokerRegistration(
        id=NODE_ID,
        epoch=1,
        incarnation_id=bytes(16),
        listeners=(Endpoint(LISTENER, "here", 9092),),
        fenced=False,
    )
    return MetadataImage(
        cluster=ClusterImage(brokers=Map({NODE_ID: broker})),
        topics=TopicsImage(
            by_name=Map({topic.name: topic for topic in topics}),
            by_id=Map({topic.id: topic for topic in topics}),
        ),
    )


class Rig:
    """Topic `t` has 4 partitions; `__consumer_offsets` has as many as the limits require."""

    def __init__(
        self,
        directory: Path,
        limits: GroupLimits,
        kinds: Sequence[GroupKind] = KINDS,
        share_states: ShareStates | None = None,
    ) -> None:
        self.directory = directory
        self.limits = limits
        self.metadata = SimpleNamespace(
            image=cluster_image(
                topic_image("t", TOPIC_ID, 4),
                topic_image(OFFSETS_TOPIC, b"o" * 16, limits.partition_count),
            )
        )
        self.groups = GroupCoordinator(
            limits, self.metadata, kinds=kinds, share_states=share_states
        )
        self.leaders: dict[int, Leader] = {}
        self.context = SimpleNamespace(
            groups=self.groups,
            metadata=self.metadata,
            authorizer=None,
            zookeeper_offsets=None,
            share_states=share_states,
            config={"group.coordinator.rebalance.protocols": ["classic", "consumer"]},
        )
        self.connect_from("10.1.2.3")

    def connect_from(self, host: str) -> None:
        """Sends later requests from this address."""
        self._connection = ConnectionInfo(1, LISTENER, (host, 4567), ("10.0.0.1", 9092))

    # -- leadership

    def index_of(self, group_id: str) -> int:
        return partition_for(group_id, self.limits.partition_count)

    def lead(self, index: int, epoch: int = 0) -> Leader:
        known = self.leaders.get(index)
        log = open_log(self.directory / f"{OFFSETS_TOPIC}-{index}") if known is None else known.log
        leader = self.leaders[index] = Leader(log, epoch)
        self.groups.runtime.began(index, leader)
        return leader

    async def leading(self, group_id: str = "g") -> None:
        """Leads the shard of a group, and waits until it is loaded."""
        index = self.index_of(group_id)
        self.lead(index)
        await self.loaded(index)

    def finalize(self, **levels: int) -> None:
        """Finalizes features: those with these names, with `_` for `.`, and no other."""
        named = Map({name.replace("_", "."): level for name, level in levels.items()})
        features = FeaturesImage(metadata_version=30, levels=named)
        self.metadata.image = replace(self.metadata.image, features=features)

    def resign(self, index: int) -> None:
        leader = self.leaders[index]
        leader.high_watermark.close()
        self.groups.runtime.ended(index, leader.epoch)

    def epoch(self, index: int) -> ShardEpoch:
        return self.groups.runtime.epoch_of(index)

    async def loaded(self, index: int) -> None:
        await self.epoch(index)._state.wait_not(ShardState.LOADING)

    # -- requests

    async def call(self, handler, request, version, *, client_id="c"):
        """Sends `request` through the registry, as a connection would; returns the decoded response."""
        deferred = self.start(handler, request, version, client_id=client_id)
        return await self.finish(request, version, deferred)

    def start(self, handler, request, version, *, client_id="c"):
        frame = memoryview(bytes(encode_request(request, version, 7, client_id)))
        return Registry([handler]).dispatch(frame, self.context, self._connection)

    async def finish(self, request, version, answer):
        if isinstance(answer, RunningRequest):
            answer = await answer.finish()
        frame = bytes(answer)
        correlation_id, body = decode_response_header(frame, request.KEY, version)
        assert correlation_id == 7
        return RESPONSES[request.KEY].decode(frame[body:], version)


@asynccontextmanager
async def open_rig(
    directory: Path,
    limits: GroupLimits | None = None,
    kinds: Sequence[GroupKind] = KINDS,
    share_states: ShareStates | None = None,
):
    rig = Rig(directory, limits or GroupLimits(partition_count=4), kinds, share_states)
    async with trio.open_nursery() as nursery:
        await nursery.start(rig.groups.runtime.run)
        try:
            yield rig
        finally:
            nursery.cancel_scope.cancel()
            for leader in rig.leaders.values():
                leader.log.close()
