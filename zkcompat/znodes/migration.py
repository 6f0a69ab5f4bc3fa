"""`/migration`: the offset of the metadata log that the tree shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import (
    NO_LEADER_EPOCH,
    NO_NODE,
    NO_OFFSET,
    LeaderEpoch,
    NodeId,
    Offset,
)
from trimaran.zkcompat.znodes.json_form import decode_json, encode_json, member


@dataclass(frozen=True, slots=True)
class Migration:
    """The offset up to which the tree is in step with the metadata log.

    `dirty` is our addition: true between two transactions of one step, when the tree is neither at `offset` nor at the
    next one. Otherwise the bytes are Kafka's; its reader ignores unknown members.
    """

    PATH: ClassVar = "/migration"
    offset: Offset = NO_OFFSET
    controller_id: NodeId = NO_NODE
    epoch: LeaderEpoch = NO_LEADER_EPOCH
    controller_epoch: LeaderEpoch = NO_LEADER_EPOCH
    dirty: bool = False

    def encode(self) -> bytes:
        members: dict[str, Any] = {
            "version": 0,
            "kraft_metadata_offset": self.offset,
            "kraft_controller_id": self.controller_id,
            "kraft_metadata_epoch": self.epoch,
            "kraft_controller_epoch": self.controller_epoch,
        }
        if self.dirty:
            members["dirty"] = True
        return encode_json(members)

    @classmethod
    def decode(cls, data: bytes | None) -> Migration:
        members = decode_json(data)
        if member(members, "version", int) != 0:
            raise RemoteProtocolError(f"a migration state of version {members['version']}")
        return cls(
            offset=member(members, "kraft_metadata_offset", Offset),
            controller_id=member(members, "kraft_controller_id", NodeId),
            epoch=member(members, "kraft_metadata_epoch", LeaderEpoch),
            controller_epoch=member(members, "kraft_controller_epoch", LeaderEpoch),
            dirty=members.get("dirty") is True,
        )
