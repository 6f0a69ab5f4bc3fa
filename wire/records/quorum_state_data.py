"""The `quorum-state` file of a voter: its leader, epoch and vote. Kafka writes it as JSON (KIP-595, KIP-853)."""

from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.codec.declarations import Struct, field, int32, int64, string, uuid
from trimaran.wire.schema import Message, message


class Voter(Struct):
    voter_id: int32


@message(versions="0-1", flexible="0+")
class QuorumStateData(Message):
    cluster_id: string = field("0", default="")
    leader_id: int32 = -1
    leader_epoch: int32 = -1
    voted_id: int32 = -1
    voted_directory_id: uuid = field("1+", default=NIL_UUID)
    applied_offset: int64 = field("0", default=0)
    current_voters: list[Voter] | None = field("0", factory=list)
