"""The controller of the simulation, which also allocates producer ids and creates the internal topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.partitions.controller import SimController
from trimaran.broker.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from trimaran.quorum.controller.handlers.allocate_producer_ids import next_block
from trimaran.quorum.metadata.features import ELR_VERSION, first_levels
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from trimaran.wire.schema import Message

if TYPE_CHECKING:
    from tests.simulation.partitions.broker import SimBroker

INTERNAL = (CONSUMER_OFFSETS, TRANSACTION_STATE)
# Segment size of compacted logs: a few batches, or a single one that a coordinator writes when a group migrates.
SEGMENT_BYTES = 2500


class CoordinatorController(SimController):
    def first_levels(self) -> dict[str, int]:
        rules = self.world.rules
        return first_levels(
            {
                ELR_VERSION: int(rules.elr),
                "transaction.version": 2 if rules.bumps else 1,
                "group.version": 1,
            }
        )

    def topic_configs(self, name: str) -> dict[str, object]:
        configs = super().topic_configs(name)
        if name in INTERNAL:
            configs["cleanup.policy"] = "compact"
            if self.world.rules.compact_every:
                configs |= {
                    "segment.bytes": SEGMENT_BYTES,
                    "min.cleanable.dirty.ratio": 0.05,
                    "delete.retention.ms": self.world.rules.delete_retention_ms,
                }
        return configs

    def serve(self, broker: SimBroker, request: Message) -> Message:
        if not isinstance(request, AllocateProducerIdsRequest):
            return super().serve(broker, request)
        try:
            result = next_block(request, self.image)
        except KafkaError as error:
            return _no_ids(error.code)
        self.write(list(result.records))
        return result.response


def _no_ids(code: ErrorCode) -> Message:
    return AllocateProducerIdsResponse(error_code=code, producer_id_start=-1, producer_id_len=0)
