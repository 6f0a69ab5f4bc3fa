"""Keys of the delivery of records to share groups, and the relations between their values.

Source: Kafka's `ShareGroupConfig`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.consumer_group_keys import check_bounded
from trimaran.node.config.key_rows import rows

SHARE_DELIVERIES = rows(
    """
errors.deadletterqueue.auto.create.topics.enable | boolean | false | medium dynamic
    Whether dead-letter queues of share groups are created when they are needed.
errors.deadletterqueue.topic.name.prefix | string | dlq. | medium dynamic
    Prefix that the name of such a topic must have.
group.share.delivery.count.limit | int 2..10 | 5 | medium
    Deliveries of a record before it is given up.
group.share.max.delivery.count.limit | int 5..25 | 10 | medium
    Upper bound of a group's share.delivery.count.limit.
group.share.max.partition.max.record.locks | int 2000..10000 | 4000 | medium
    Upper bound of a group's share.partition.max.record.locks.
group.share.max.record.lock.duration.ms | int 30000..3600000 | 60000 | medium
    Upper bound of a group's share.record.lock.duration.ms.
group.share.max.share.sessions | int 1.. | 2000 | medium
    Maximum number of share sessions of a broker.
group.share.min.delivery.count.limit | int 2..5 | 2 | medium
    Lower bound of a group's share.delivery.count.limit.
group.share.min.partition.max.record.locks | int 100..2000 | 100 | medium
    Lower bound of a group's share.partition.max.record.locks.
group.share.min.record.lock.duration.ms | int 1000..30000 | 15000 | medium
    Lower bound of a group's share.record.lock.duration.ms.
group.share.partition.max.record.locks | int 100..10000 | 2000 | medium
    Maximum number of records of a partition that are delivered and not acknowledged.
group.share.record.lock.duration.ms | int 1000..3600000 | 30000 | medium
    Time a consumer has to acknowledge a record.
"""
)
BOUNDED = ("delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms")


def check_share_deliveries(config: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    """Raises ConfigError if a value is outside the bounds of other keys, or a full group has more members than there
    are share sessions.
    """
    above = "{high} must be greater than or equal to {key}"
    check_bounded("share", BOUNDED, config, origins, above)
    sessions, members = "group.share.max.share.sessions", "group.share.max.size"
    if config[sessions] < config[members]:
        raise ConfigError(
            sessions,
            config[sessions],
            f"it must not be below {members}={config[members]}",
            origin=origins.get(sessions, ""),
            fix="let each member of a full group have a session",
            answer=f"{sessions} must be greater than or equal to {members}",
        )
