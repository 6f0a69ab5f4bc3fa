"""`broker_history`: the states of every broker over time. Source: KIP-631, Kafka's `ClusterControlManager`.

States: `registered` (fenced since its registration), `active`, `controlled_shutdown`, `fenced`,
`unregistered` (a row of zero length). The last row of a registered broker has no end; its seconds count to the log's
end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import pyarrow as pa

from trimaran.quorum.metadata.cluster_delta import ClusterDelta
from trimaran.quorum.metadata.image import BrokerRegistration, ClusterImage
from trimaran.spark.data_source.columns import INT, LONG, STRING, STRINGS, TIMESTAMP, Column, field
from trimaran.spark.kafka_metadata.log_walk.fold import Fold, folded
from trimaran.spark.kafka_metadata.log_walk.walk import NEVER, Moment, WalkStep, seconds_between
from trimaran.spark.kafka_metadata.topic_histories.partitions import BROKER_RECORDS
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.identity import Address, BrokerId
from trimaran.wire.records.brokers import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from trimaran.wire.schema import Message

# fmt: off
COLUMNS = (
    Column("broker_id", INT, field("broker.id"), "the broker", "RegisterBrokerRecord.brokerId"),
    Column("incarnation_id", STRING, lambda row: uuid_to_text(row.broker.incarnation_id), "new with each start",
           "RegisterBrokerRecord.incarnationId"),
    Column("broker_epoch", LONG, field("broker.epoch"), "new with each registration",
           "RegisterBrokerRecord.brokerEpoch"),
    Column("rack", STRING, field("broker.rack"), "its rack; null: none", "RegisterBrokerRecord.rack"),
    Column("from_offset", LONG, field("since.offset"), "the record that began the interval"),
    Column("to_offset", LONG, lambda row: row.end and row.end.offset, "the record that ended it; null: it continues"),
    Column("from_ts", TIMESTAMP, field("since.timestamp_ms"), "when it began", unit="UTC"),
    Column("to_ts", TIMESTAMP, lambda row: row.end and row.end.timestamp_ms, "when it ended; null: it continues",
           unit="UTC"),
    Column("seconds", pa.float64(), lambda row: seconds_between(row.since, row.measured_to),
           "its length, of the last interval to the log's end; null: no time", unit="s"),
    Column("state", STRING, field("state"), "registered, active, controlled_shutdown, fenced, unregistered"),
    Column("prev_state", STRING, field("prev_state"), "the state before; null: none"),
    Column("cause", STRING, field("cause"),
           "registered, restarted (a new incarnation), unfenced, fenced, controlled_shutdown, changed, unregistered, "
           "snapshot"),
    Column("endpoints", STRINGS,
           lambda row: [f"{each.name}://{Address(each.host, each.port)}" for each in row.broker.listeners],
           "PROTOCOL-NAME://host:port", "RegisterBrokerRecord.endPoints"),
    Column("log_dirs", STRINGS, lambda row: list(map(uuid_to_text, row.broker.directories)),
           "ids of its log directories", "RegisterBrokerRecord.logDirs"),
)
# fmt: on


class BrokerInterval(NamedTuple):
    """A row: a broker between two changes; without `end` the state still lasts, and its length counts up to
    `measured_to`.
    """

    since: Moment
    broker: BrokerRegistration
    state: str
    prev_state: str | None
    cause: str
    end: Moment | None = None
    measured_to: Moment = NEVER


class BrokerHistoryFold(Fold):
    """Replays registrations; finished intervals become rows."""

    RECORDS: ClassVar[Sequence[type[Message]]] = BROKER_RECORDS

    def __init__(self) -> None:
        super().__init__()
        self._cluster = ClusterDelta(ClusterImage())
        self._open: dict[BrokerId, BrokerInterval] = {}

    def replay(self, step: WalkStep) -> None:
        broker_id = self._take(step.message)
        broker = self._cluster.broker(broker_id)
        old = self._open.pop(broker_id, None)
        if broker is None:
            if old is not None:
                gone = BrokerInterval(
                    step.moment, old.broker, "unregistered", old.state, "unregistered"
                )
                self._close(old, step.moment, step.moment)
                self._close(gone, step.moment, step.moment)
            return
        new = self._begun(step, broker, old)
        if old is not None:
            if (old.state, old.broker) == (new.state, new.broker):
                self._open[broker_id] = old
                return
            self._close(old, step.moment, step.moment)
        self._open[broker_id] = new

    def _take(self, message: object) -> BrokerId:
        match message:
            case RegisterBrokerRecord():
                self._cluster.register_broker(message)
                return message.broker_id
            case UnregisterBrokerRecord():
                self._cluster.unregister_broker(message)
                return message.broker_id
            case FenceBrokerRecord():
                self._cluster.fence_broker(message)
                return message.id
            case UnfenceBrokerRecord():
                self._cluster.unfence_broker(message)
                return message.id
            case BrokerRegistrationChangeRecord():
                self._cluster.change_broker(message)
                return message.broker_id
            case _:
                raise AssertionError(message)  # the walk yields no other types

    def _begun(
        self, step: WalkStep, broker: BrokerRegistration, old: BrokerInterval | None
    ) -> BrokerInterval:
        fresh = isinstance(step.message, RegisterBrokerRecord)
        never_active = fresh if old is None else fresh or old.state == "registered"
        state = _state(broker, never_active)
        if step.from_snapshot:
            state = _state(broker, False)
            return BrokerInterval(step.moment, broker, state, None, "snapshot")
        if old is None:
            return BrokerInterval(step.moment, broker, state, None, "registered")
        if fresh:
            again = old.broker.incarnation_id != broker.incarnation_id
            cause = "restarted" if again else "registered"
        elif state == old.state:
            cause = "changed"
        else:
            cause = {"active": "unfenced"}.get(state, state)
        return BrokerInterval(step.moment, broker, state, old.state, cause)

    def finish(self, last: Moment) -> None:
        for interval in self._open.values():
            self._close(interval, None, last)

    def _close(self, interval: BrokerInterval, end: Moment | None, measured_to: Moment) -> None:
        self.rows.append(interval._replace(end=end, measured_to=measured_to))


def _state(broker: BrokerRegistration, never_active: bool) -> str:
    if broker.fenced:
        return "registered" if never_active else "fenced"
    return "controlled_shutdown" if broker.in_controlled_shutdown else "active"


TABLE = folded(
    "broker_history",
    "The state of every broker over time (active, fenced, shutting down), with the causes of changes.",
    COLUMNS,
    BrokerHistoryFold,
    plan="whole",
)
