"""`/brokers/topics/T/partitions/P/state`: leader and in-sync replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from zkcompat.znodes.fields import ids, member
from zkcompat.znodes.json_form import decode_json, encode_json
from zkcompat.znodes.topic_assignment import BROKER_TOPICS


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Leader and in-sync replicas; `controller_epoch` is the raft epoch in which this was written."""

    leader: int
    leader_epoch: int
    isr: Sequence[int]
    controller_epoch: int
    leader_recovery_state: int = 0

    @staticmethod
    def parent(topic: str) -> str:
        return f"{BROKER_TOPICS}/{topic}/partitions"

    @staticmethod
    def partition_path(topic: str, partition: int) -> str:
        return f"{BROKER_TOPICS}/{topic}/partitions/{partition}"

    @staticmethod
    def path(topic: str, partition: int) -> str:
        return f"{BROKER_TOPICS}/{topic}/partitions/{partition}/state"

    def encode(self) -> bytes:
        members: dict[str, Any] = {
            "controller_epoch": self.controller_epoch,
            "leader": self.leader,
            "version": 1,
        }
        if self.leader_recovery_state:
            members["leader_recovery_state"] = self.leader_recovery_state
        members["leader_epoch"] = self.leader_epoch
        members["isr"] = list(self.isr)
        return encode_json(members)

    @classmethod
    def decode(cls, data: bytes | None) -> PartitionState:
        members = decode_json(data)
        return cls(
            leader=member(members, "leader", int),
            leader_epoch=member(members, "leader_epoch", int),
            isr=ids(member(members, "isr", list)),
            controller_epoch=member(members, "controller_epoch", int),
            leader_recovery_state=members.get("leader_recovery_state", 0),
        )
