"""Records of `__share_group_state`: the delivery counts of records in a share partition (KIP-932).

Keys and values are framed as those of `consumer_groups`. An update changes the state in the previous snapshot.
"""

from trimaran.wire.codec.declarations import (
    Struct,
    field,
    int8,
    int16,
    int32,
    int32_leader_epoch,
    int32_snapshot_epoch,
    int32_state_epoch,
    int64,
    int64_offset,
    string,
    uuid,
)
from trimaran.wire.schema import Message, message


@message(key=0, versions="0")
class ShareSnapshotKey(Message):
    group_id: string
    topic_id: uuid
    partition: int32


class StateBatch(Struct):
    first_offset: int64_offset
    last_offset: int64_offset
    delivery_state: int8
    delivery_count: int16


@message(key=0, versions="0", flexible="0+")
class ShareSnapshotValue(Message):
    snapshot_epoch: int32_snapshot_epoch
    state_epoch: int32_state_epoch
    leader_epoch: int32_leader_epoch
    start_offset: int64_offset
    delivery_complete_count: int32 = field(default=-1, tag=0)
    create_timestamp: int64
    write_timestamp: int64
    state_batches: list[StateBatch]


@message(key=1, versions="0")
class ShareUpdateKey(Message):
    group_id: string
    topic_id: uuid
    partition: int32


@message(key=1, versions="0", flexible="0+")
class ShareUpdateValue(Message):
    snapshot_epoch: int32_snapshot_epoch
    leader_epoch: int32_leader_epoch
    start_offset: int64_offset
    delivery_complete_count: int32 = field(default=-1, tag=0)
    state_batches: list[StateBatch]
