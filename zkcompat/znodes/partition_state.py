"""`/brokers/topics/T/partitions/P/state`: leader and in-sync replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trimaran.wire.identity import BrokerId, LeaderEpoch, TopicPartition
from trimaran.zkcompat.znodes.json_form import decode_json, ids, member
from trimaran.zkcompat.znodes.topic_assignment import BROKER_TOPICS

RECOVERY = '"leader_recovery_state"'


@dataclass(frozen=True, slots=True)
class PartitionStateZnode:
    """Leader and in-sync replicas; `controller_epoch` is the raft epoch in which this was written."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: Sequence[BrokerId]
    controller_epoch: LeaderEpoch
    leader_recovery_state: int = 0

    @staticmethod
    def parent(topic: str) -> str:
        return f"{BROKER_TOPICS}/{topic}/partitions"

    @staticmethod
    def partition_path(key: TopicPartition) -> str:
        return f"{BROKER_TOPICS}/{key.topic}/partitions/{key.partition}"

    @staticmethod
    def path(key: TopicPartition) -> str:
        return f"{BROKER_TOPICS}/{key.topic}/partitions/{key.partition}/state"

    def encode(self) -> bytes:
        # There are many of these, and all are numbers: JSON's encoder would take four times as long.
        recovery = self.leader_recovery_state
        text = (
            f'{{"controller_epoch":{self.controller_epoch},"leader":{self.leader},"version":1,'
            f"{f'{RECOVERY}:{recovery},' if recovery else ''}"
            f'"leader_epoch":{self.leader_epoch},"isr":[{",".join(map(str, self.isr))}]}}'
        )
        return text.encode()

    @classmethod
    def decode(cls, data: bytes | None) -> PartitionStateZnode:
        members = decode_json(data)
        return cls(
            leader=member(members, "leader", BrokerId),
            leader_epoch=member(members, "leader_epoch", LeaderEpoch),
            isr=ids(member(members, "isr", list)),
            controller_epoch=member(members, "controller_epoch", LeaderEpoch),
            leader_recovery_state=members.get("leader_recovery_state", 0),
        )
