"""What consumer groups are configured with: the broker's `group.consumer.*`, and the configs of a group itself.

Source: Kafka's `GroupCoordinatorConfig`, `GroupConfig`, `ConsumerGroupMigrationPolicy`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

# What one member may name: topics and a pattern. It must fit into a record of a megabyte, with the rest of the member.
SUBSCRIPTION_BYTES_MAX = 512 << 10

# Of an id that a member has chosen: it is in the keys of four records, and many members' targets are in one batch.
MEMBER_ID_CHARACTERS_MAX = 1_000

# While a group is on its way to its target its members are asked to come again soon, or each step would take a
# heartbeat interval of seconds: after so long at the soonest, and so that all of them together come so often.
RECONCILING_INTERVAL_MS_MIN = 500
RECONCILING_HEARTBEATS_PER_SECOND_MAX = 500
# A group counts as such for so long after its last assignment, too: others may be about to join.
RECONCILING_MS = 3_000


class MigrationPolicy(Enum):
    """Which way a group with members may go between the protocols; empty groups always may."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def may_upgrade(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def may_downgrade(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True)
class ConsumerGroupSettings:
    """What holds for one group at this moment; the defaults are Kafka 4.3's."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    reconciling_interval_ms_min: int = RECONCILING_INTERVAL_MS_MIN
    assignment_interval_ms: int = 1_000
    assignors: tuple[str, ...] = ("uniform", "range")
    members_max: int = 0x7FFFFFFF
    classic_members_max: int = 0x7FFFFFFF
    migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    regex_refresh_interval_ms: int = 600_000
