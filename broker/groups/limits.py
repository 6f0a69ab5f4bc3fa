"""The configuration of the group coordinator: Kafka's keys `group.*`, `offset*.*` in the units it computes in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trimaran.node.config.server import ServerConfig

# A member that has an id but has not joined yet costs a string and a timer; more than this in one group at a time are
# not consumers. Kafka has no bound here.
PENDING_MEMBERS_MAX = 10_000

# The size of one member's metadata in all its protocols: it stays in memory as long as the member. The chosen one
# must fit into a record of a megabyte, or the group is never stored; four such are more than clients offer.
MEMBER_BYTES_MAX = 4 << 20

# The same of all members together. One record of a megabyte has what they said for the chosen protocol and what they
# are assigned (`shard.BATCH_BYTES_MAX`), or nothing is stored; so this, too, is more than four protocols. Kafka has no
# bound here.
GROUP_BYTES_MAX = 16 << 20

# A new member cannot heartbeat before it receives its generation, and a coordinator does not see its connection: this
# long it may wait for a rebalance to end. As in Kafka.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000

# A join phase without a member goes on for at least this long, whatever rebalance timeout its members have asked
# for: with one of 0 it would end and begin again without end.
JOIN_PHASE_MS_MIN = 1_000

# The length of the name in front of a member id. Ids are in every answer and record, as strings of 32,767 bytes at
# the most, and a
# name alone may have as many. The random part behind it makes ids differ.
MEMBER_NAME_CHARACTERS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The defaults are Kafka 4.3's."""

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
        """Reads Kafka's keys."""
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
