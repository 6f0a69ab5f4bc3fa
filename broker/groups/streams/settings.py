"""The settings of streams groups: the broker's `group.streams.*`, and the configs of the group itself.

Source: Kafka's `GroupCoordinatorConfig`, `GroupConfig`, `GroupMetadataManager.streamsGroupAssignmentConfigs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# The maximum length of an id chosen by a member, and the maximum size of its own texts with its tags: they are in its
# records.
MEMBER_ID_CHARACTERS_MAX = 1_000
MEMBER_TEXT_BYTES_MAX = 64 << 10


@dataclass(frozen=True, slots=True)
class StreamsGroupSettings:
    """The current settings of one group; the defaults are those of Kafka 4.4."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    initial_rebalance_delay_ms: int = 3_000
    task_offset_interval_ms: int = 60_000
    acceptable_recovery_lag: int = 10_000
    standby_replicas: int = 0
    rack_aware_tags: tuple[str, ...] = ()
    members_max: int = 0x7FFFFFFF

    @property
    def assignment_configs(self) -> Mapping[str, str]:
        """The settings that require a new assignment when they change, as in records."""
        configs = {"num.standby.replicas": str(self.standby_replicas)}
        if self.rack_aware_tags:
            configs["rack.aware.assignment.tags"] = ",".join(self.rack_aware_tags)
        return configs
