"""The services shared by all partitions of this broker: durability, the channel to the controller, clocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trimaran.broker.metadata.metadata_cache import BrokerMetadata
from trimaran.broker.partitions.isr_change import IsrChanges
from trimaran.broker.partitions.suspects import Suspects
from trimaran.broker.partitions.traffic import Traffic
from trimaran.node.runtime.long_lived import LongLived
from trimaran.wire.identity import BrokerEpoch, BrokerId

if TYPE_CHECKING:
    from trimaran.broker.metadata.topic_settings import TopicSettingsSource
    from trimaran.broker.storage.directories import LogDirectories
    from trimaran.log.durability.group_commit import Durability


@dataclass(frozen=True, slots=True)
class Services:
    """The shared services. `now` returns monotonic seconds, `now_ms` the wall clock, `broker_epoch` the epoch of this
    registration (`NO_BROKER_EPOCH` before it).
    """

    node_id: BrokerId
    directories: LogDirectories
    settings: TopicSettingsSource
    commit: Durability
    isr_changes: IsrChanges
    metadata: BrokerMetadata
    broker_epoch: Callable[[], BrokerEpoch]
    lag_seconds_max: float
    now: Callable[[], float]
    now_ms: Callable[[], int]
    long_lived: LongLived = field(default_factory=LongLived)
    suspects: Suspects = field(default_factory=Suspects)
    traffic: Traffic = field(default_factory=Traffic)
