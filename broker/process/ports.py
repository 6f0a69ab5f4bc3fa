"""The external dependencies of a broker: its disks, the controller, other brokers and clocks. A process opens real
ones; tests and the simulation substitute others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trimaran.broker.channels.broker_channels import Channels
from trimaran.broker.channels.controller_channel import ControllerCalls
from trimaran.broker.partitions.isr_change import IsrChanges
from trimaran.broker.partitions.registry import FetcherManager
from trimaran.broker.storage.directories import LogDirectories
from trimaran.log.durability.group_commit import Durability
from trimaran.wire.identity import BrokerEpoch, LeaderEpoch


@dataclass(frozen=True, slots=True)
class Ports:
    """The external dependencies. `open_channels` opens channels to other brokers for a purpose. `broker_epoch` returns
    the epoch of this incarnation (-1 before registration), and `report` requests a heartbeat now.
    `quorum_epoch` returns the epoch of the quorum's leader. `now` returns monotonic seconds, `now_ms` the wall-clock
    time.
    """

    directories: LogDirectories
    durability: Durability
    controller: ControllerCalls
    isr_changes: IsrChanges
    fetchers: FetcherManager
    open_channels: Callable[[str], Channels]
    broker_epoch: Callable[[], BrokerEpoch]
    report: Callable[[], None]
    kraft_version: Callable[[], int]
    quorum_epoch: Callable[[], LeaderEpoch]
    now: Callable[[], float]
    now_ms: Callable[[], int]
