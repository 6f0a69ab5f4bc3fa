"""`/latest_producer_id_block`: the next producer ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trimaran.wire.identity import BrokerId, ProducerId
from trimaran.zkcompat.znodes.json_form import decode_json, encode_json, member, number

PRODUCER_ID_BLOCK_SIZE = 1000
OF_CONTROLLER = BrokerId(-1)  # a KRaft controller takes blocks for all brokers


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """The next block of producer ids, and the broker for which the last one was taken."""

    PATH: ClassVar = "/latest_producer_id_block"
    block_start: ProducerId
    broker: BrokerId = OF_CONTROLLER

    def encode(self) -> bytes:
        end = self.block_start + PRODUCER_ID_BLOCK_SIZE - 1
        return encode_json(
            {
                "version": 1,
                "broker": self.broker,
                "block_start": str(self.block_start),
                "block_end": str(end),
            }
        )

    @classmethod
    def decode(cls, data: bytes | None) -> ProducerIdBlock:
        members = decode_json(data)
        return cls(ProducerId(number(members, "block_start")), member(members, "broker", BrokerId))
