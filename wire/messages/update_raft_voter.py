"""UpdateRaftVoter (82): a voter reports its endpoints and versions to the leader (KIP-853)."""

from trimaran.wire.codec.declarations import (
    Struct,
    field,
    int16,
    int32,
    int32_leader_epoch,
    int32_node_id,
    string,
    uint16,
    uuid,
)
from trimaran.wire.identity import LeaderEpoch, NodeId
from trimaran.wire.schema import Message, request, response


class Listener(Struct):
    name: string
    host: string
    port: uint16


class KRaftVersionFeature(Struct):
    min_supported_version: int16
    max_supported_version: int16


@request(key=82, versions="0", flexible="0+")
class UpdateRaftVoterRequest(Message):
    cluster_id: string | None
    current_leader_epoch: int32_leader_epoch
    voter_id: int32_node_id
    voter_directory_id: uuid
    listeners: list[Listener]
    kraft_version_feature: KRaftVersionFeature


class CurrentLeader(Struct):
    leader_id: int32_node_id = NodeId(-1)
    leader_epoch: int32_leader_epoch = LeaderEpoch(-1)
    host: string = ""
    port: int32 = 0


@response(key=82, versions="0", flexible="0+")
class UpdateRaftVoterResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    current_leader: CurrentLeader = field(factory=CurrentLeader, tag=0)
