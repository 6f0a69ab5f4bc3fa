"""The `quorum-state` file of a voter: its leader, epoch and vote. Kafka writes it as JSON (KIP-595, KIP-853)."""

from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.codec.declarations import (
    Struct,
    field,
    int32_leader_epoch,
    int32_node_id,
    int64_offset,
    string,
    uuid,
)
from trimaran.wire.identity import NO_LEADER_EPOCH, NO_NODE
from trimaran.wire.schema import Message, message


class Voter(Struct):
    voter_id: int32_node_id


@message(versions="0-1", flexible="0+")
class QuorumStateData(Message):
    cluster_id: string = field("0", default="")
    leader_id: int32_node_id = NO_NODE
    leader_epoch: int32_leader_epoch = NO_LEADER_EPOCH
    voted_id: int32_node_id = NO_NODE
    voted_directory_id: uuid = field("1+", default=NIL_UUID)
    applied_offset: int64_offset = field("0", default=0)
    current_voters: list[Voter] | None = field("0", factory=list)
