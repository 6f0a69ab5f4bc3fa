"""What consumers put into JoinGroup and SyncGroup: subscription and assignment.

Both travel with their int16 version before them; the coordinator does not look inside.
Versions: 1 owned partitions (KIP-429); 2 the generation (KIP-792); 3 the rack (KIP-881).
"""

from wire.schema import Message, Struct, data, field, int32, message, string


class ConsumerProtocolSubscriptionTopicPartition(Struct):
    topic: string
    partitions: list[int32]


@message(versions="0-3")
class ConsumerProtocolSubscription(Message):
    topics: list[string]
    user_data: data | None = None
    owned_partitions: list[ConsumerProtocolSubscriptionTopicPartition] = field(
        "1+", factory=list, ignorable=True
    )
    generation_id: int32 = field("2+", default=-1, ignorable=True)
    rack_id: string | None = field("3+", default=None, ignorable=True)


class ConsumerProtocolAssignmentTopicPartition(Struct):
    topic: string
    partitions: list[int32]


@message(versions="0-3")
class ConsumerProtocolAssignment(Message):
    assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition]
    user_data: data | None = None
