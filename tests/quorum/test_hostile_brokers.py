"""Well-formed but senseless requests of brokers and controllers to the active controller, about live brokers and real
partitions.

Each is answered or refused with a proper code, and everything written can be replayed by a starting node.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.in_process import cluster, connected_to
from tests.cluster.nodes import CLUSTER_ID, SECONDS
from tests.cluster.scripted_broker import ScriptedBroker
from tests.quorum.metadata.build import uid
from tests.wire.random_messages import random_message
from trimaran.wire.client.calls import error_codes
from trimaran.wire.codec.declarations import Struct
from trimaran.wire.errors import ErrorCode, LocalProtocolError
from trimaran.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from trimaran.wire.messages.alter_partition import AlterPartitionRequest
from trimaran.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from trimaran.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from trimaran.wire.messages.broker_registration import BrokerRegistrationRequest
from trimaran.wire.messages.controller_registration import ControllerRegistrationRequest
from trimaran.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from trimaran.wire.messages.envelope import EnvelopeRequest
from trimaran.wire.messages.unregister_broker import UnregisterBrokerRequest

REQUESTS = 250
KINDS = (
    *(AllocateProducerIdsRequest, AlterPartitionRequest, AssignReplicasToDirsRequest),
    *(BrokerHeartbeatRequest, BrokerRegistrationRequest, ControllerRegistrationRequest),
    *(EnvelopeRequest, UnregisterBrokerRequest),
)


class Likely:
    """Puts valid values in fields that are checked first."""

    def __init__(self, prng: random.Random, brokers: list[ScriptedBroker], image: Any) -> None:
        self.prng = prng
        self.broker = prng.choice(brokers)
        self.values: dict[str, list[Any]] = {
            "broker_id": [self.broker.id],
            "broker_epoch": [self.broker.epoch],
            "cluster_id": [CLUSTER_ID],
            "incarnation_id": [self.broker.incarnation_id],
            "topic_id": list(image.topics.by_id),
            "partition_index": [0, 1],
            "leader_epoch": [0, 1, 2],
            "partition_epoch": list(range(6)),
            "leader_recovery_state": [0, 1],
            "id": [uid(500 + self.broker.id)],
        }

    def put(self, message: Struct) -> Struct:
        for name in message.__slots__:
            value = getattr(message, name)
            if isinstance(value, list) and value and isinstance(value[0], Struct):
                for item in value:
                    self.put(item)
            elif name in self.values and self.prng.random() < 0.85:
                setattr(message, name, self.prng.choice(self.values[name]))
        return message


@pytest.mark.parametrize("seed", range(2))
async def test_senseless_requests_are_answered_and_can_be_replayed(
    tmp_path: Path, seed: int
) -> None:
    prng = random.Random(seed)
    told: Counter[str] = Counter()
    async with cluster(tmp_path, brokers=0) as nodes:
        active = await nodes.active()
        epoch = active.context.controller.active().epoch
        async with connected_to(active) as connection:
            brokers = [nodes.scripted_broker(connection, node_id) for node_id in (11, 12)]
            for broker in brokers:
                await broker.join()
            topic = CreatableTopic(
                name="t", num_partitions=2, replication_factor=2, assignments=[], configs=[]
            )
            await connection.call(CreateTopicsRequest(topics=[topic]), timeout=SECONDS)
            for number in range(REQUESTS):
                kind = prng.choice(KINDS)
                version = connection.negotiated.best(kind)
                request = random_message(kind, version, prng.randrange(1 << 20))
                Likely(prng, brokers, active.loader.image).put(request)
                try:
                    answer = await connection.call(request, version=version, timeout=SECONDS)
                except LocalProtocolError:
                    continue
                codes = [ErrorCode.of(code).name for code in error_codes(answer)] or ["NONE"]
                told.update(f"{kind.__name__} {code}" for code in codes)
                assert "UNKNOWN_SERVER_ERROR" not in codes, (number, request, answer)
                for broker in brokers:
                    if prng.random() < 0.3:
                        await broker.register()
                        await broker.beat()
        assert active.context.controller.active().epoch == epoch
        for kind in (AlterPartitionRequest, BrokerHeartbeatRequest, AllocateProducerIdsRequest):
            assert told[f"{kind.__name__} NONE"], told
        await nodes.stop(1)
        again = await nodes.start_controller(1)
        await nodes.active()
        assert set(again.loader.image.topics.by_name) == {"t"}
