"""The configuration of the group coordinator: Kafka's keys `group.*` and `offset*.*`, in the coordinator's units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trimaran.node.config.server import ServerConfig

# The maximum number of members of a group that have an id and have not joined yet. Each costs a string and a timer; a
# group with more of them does not consist of real consumers. Kafka does not limit this number.
PENDING_MEMBERS_MAX = 10_000

# The maximum size of one member's metadata in all its protocols, which stays in memory as long as the member. The
# metadata of the selected protocol must fit into a record of a megabyte, or the group cannot be stored. Clients offer
# fewer than four protocols.
MEMBER_BYTES_MAX = 4 << 20

# The maximum for all members together. One record of a megabyte must hold their metadata for the selected protocol and
# their assignments (`max.message.bytes` of the topic); so this limit is also sufficient for members with several
# protocols. Kafka does not limit this size.
GROUP_BYTES_MAX = 16 << 20

# The maximum wait of a new member for the end of a rebalance, as in Kafka: it cannot heartbeat before it receives its
# generation, and the coordinator does not know its connection.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000

# The minimum length of a join phase without members, whatever their rebalance timeouts: with a timeout of 0 it would
# end and restart in a loop.
JOIN_PHASE_MS_MIN = 1_000

# The maximum length of the name at the start of a member id. Ids are in every response and record, as strings of at
# most 32,767 bytes, and a name may have the same length. The random part after it makes ids unique.
MEMBER_NAME_CHARACTERS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The limits of the group coordinator; the defaults are those of Kafka 4.3."""

    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    members_max: int = 0x7FFFFFFF
    offset_metadata_size_max: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 60 * 60_000
    expiry_interval_ms: int = 600_000
    commit_timeout_ms: int = 5_000
    load_buffer_bytes: int = 5 << 20
    partition_count: int = 50
    offset_value_version: int = 4

    @classmethod
    def of(cls, config: ServerConfig) -> GroupLimits:
        """Reads the limits from Kafka's keys."""
        return cls(
            session_timeout_ms_min=config["group.min.session.timeout.ms"],
            session_timeout_ms_max=config["group.max.session.timeout.ms"],
            initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
            members_max=config["group.max.size"],
            offset_metadata_size_max=config["offset.metadata.max.bytes"],
            offsets_retention_ms=config["offsets.retention.minutes"] * 60_000,
            expiry_interval_ms=config["offsets.retention.check.interval.ms"],
            commit_timeout_ms=config["offsets.commit.timeout.ms"],
            load_buffer_bytes=config["offsets.load.buffer.size"],
            partition_count=config["offsets.topic.num.partitions"],
            offset_value_version=config["trimaran.offsets.value.version"],
        )
