"""`/controller` and `/controller_epoch`: the leading controller, and the number of claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import NO_LEADER_EPOCH, ControllerEpoch, LeaderEpoch, NodeId
from trimaran.zkcompat.znodes.json_form import decode_json, encode_json, member, number


@dataclass(frozen=True, slots=True)
class ControllerZnode:
    """The leading controller. The znode is ephemeral: it is also the mirror's claim, and ends with its session."""

    PATH: ClassVar = "/controller"
    broker_id: NodeId
    timestamp_ms: int
    kraft_controller_epoch: LeaderEpoch

    def encode(self) -> bytes:
        return encode_json(
            {
                "version": 2,
                "brokerid": self.broker_id,
                "timestamp": str(self.timestamp_ms),
                "kraftControllerEpoch": self.kraft_controller_epoch,
            }
        )

    @classmethod
    def decode(cls, data: bytes | None) -> ControllerZnode:
        members = decode_json(data)
        epoch = (
            member(members, "kraftControllerEpoch", LeaderEpoch)
            if "kraftControllerEpoch" in members
            else NO_LEADER_EPOCH
        )
        return cls(member(members, "brokerid", NodeId), number(members, "timestamp"), epoch)


@dataclass(frozen=True, slots=True)
class ControllerEpochZnode:
    """ZooKeeper's own controller epoch, incremented at each claim, independent of the raft epoch."""

    PATH: ClassVar = "/controller_epoch"
    epoch: ControllerEpoch

    def encode(self) -> bytes:
        return str(self.epoch).encode()

    @classmethod
    def decode(cls, data: bytes | None) -> ControllerEpochZnode:
        text = (data or b"").decode("ascii", "replace")
        if not text.isdecimal() or len(text) > 10:
            raise RemoteProtocolError("a controller epoch that is not a number")
        return cls(ControllerEpoch(text))
