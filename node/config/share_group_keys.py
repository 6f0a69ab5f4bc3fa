"""Keys of share groups (KIP-932) for the group coordinator.

Source: Kafka's `GroupCoordinatorConfig`.
"""

from __future__ import annotations

from dataclasses import replace

from trimaran.node.config.config_def import ConfigKey
from trimaran.node.config.key_rows import rows

SHARE_ASSIGNOR_NAMES = {
    "simple": "simple",
    "org.apache.kafka.coordinator.group.assignor.SimpleAssignor": "simple",
}
"""The server's assignors, also under the names of Kafka's classes."""


def _assignors(names: list[str]) -> str | None:
    if len(names) == 1 and names[0] in SHARE_ASSIGNOR_NAMES:
        return None
    return f"the assignor is simple, and own ones cannot be loaded: {', '.join(names)}"


_KEYS = rows(
    """
group.share.assignment.interval.ms | int 0.. | 1000 | medium dynamic
    Minimum time between two assignments of a share group.
group.share.assignors | list | simple | medium
    Assignors of share groups.
group.share.heartbeat.interval.ms | int 1.. | 5000 | medium
    Time between two heartbeats of a share group's member.
group.share.initialize.retry.interval.ms | int 1.. | 30000 | internal
    Time after which the states of share partitions are initialized again.
group.share.max.assignment.interval.ms | int 0.. | 15000 | medium
    Upper bound of a group's share.assignment.interval.ms.
group.share.max.heartbeat.interval.ms | int 1.. | 15000 | medium
    Upper bound of a group's share.heartbeat.interval.ms.
group.share.max.session.timeout.ms | int 1.. | 60000 | medium
    Upper bound of a group's share.session.timeout.ms.
group.share.max.size | int 1..1000 | 200 | medium
    Maximum number of members of a share group.
group.share.min.assignment.interval.ms | int 0.. | 0 | medium
    Lower bound of a group's share.assignment.interval.ms.
group.share.min.heartbeat.interval.ms | int 1.. | 5000 | medium
    Lower bound of a group's share.heartbeat.interval.ms.
group.share.min.session.timeout.ms | int 1.. | 45000 | medium
    Lower bound of a group's share.session.timeout.ms.
group.share.session.timeout.ms | int 1.. | 45000 | medium
    Time without a heartbeat after which a member leaves its share group.
""",
    no_effect="",
)
SHARE_GROUPS: tuple[ConfigKey, ...] = tuple(
    replace(key, check=_assignors) if key.name == "group.share.assignors" else key for key in _KEYS
)
