"""`config_history`: each config and client quota that was set, changed or taken away. Secrets are hidden."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from trimaran.quorum.metadata.image import RESOURCE_TYPES, TOPIC_RESOURCE, ConfigsImage
from trimaran.quorum.metadata.other_deltas import ConfigsDelta
from trimaran.spark.data_source.columns import INT, LONG, STRING, TIMESTAMP, Column
from trimaran.spark.kafka_metadata.log_walk.fold import EventFold, folded
from trimaran.spark.kafka_metadata.log_walk.walk import WalkStep
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.quotas import ClientQuotaRecord
from trimaran.wire.records.sensitive import is_sensitive
from trimaran.wire.records.topics import RemoveTopicRecord, TopicRecord
from trimaran.wire.schema import Message
from trimaran.wire.text.as_json import HIDDEN

COLUMNS = (
    Column("offset", LONG, "the record"),
    Column("ts", TIMESTAMP, "when the controller wrote it", unit="UTC"),
    Column("controller_epoch", INT, "epoch of the controller that wrote it"),
    Column(
        "resource_type",
        STRING,
        "topic, broker, broker-logger, client-metrics, group, client-quota",
        "ConfigRecord.resourceType",
    ),
    Column(
        "resource_name",
        STRING,
        "the topic, broker (empty: all brokers) or quota's entity, as user=alice,client-id=…",
        "ConfigRecord.resourceName, ClientQuotaRecord.entity",
    ),
    Column("topic", STRING, "the topic, where it is one"),
    Column("name", STRING, "the config", "ConfigRecord.name, ClientQuotaRecord.key"),
    Column("old_value", STRING, "before; null: not set"),
    Column("new_value", STRING, "after; null: taken away", "ConfigRecord.value"),
    Column("event", STRING, "set, changed, deleted, topic_deleted, snapshot"),
)
WORDS = {number: word.lower().replace("_", "-") for number, word in RESOURCE_TYPES.items()}


class ConfigHistoryFold(EventFold):
    RECORDS: ClassVar[Sequence[type[Message]]] = (
        ConfigRecord,
        ClientQuotaRecord,
        RemoveTopicRecord,
        TopicRecord,
    )

    def __init__(self) -> None:
        super().__init__()
        self._configs = ConfigsDelta(ConfigsImage())
        self._quotas: dict[tuple[str, str], str] = {}
        self._names: dict[bytes, str] = {}

    def take(self, step: WalkStep) -> None:
        match step.message:
            case TopicRecord() as record:
                self._names[record.topic_id] = record.name
            case ConfigRecord() as record:
                resource = record.resource_type, record.resource_name
                old = self._configs.changed.get(resource, {}).get(record.name)
                self._configs.set_config(record)
                self._tell(step, resource, record.name, old, record.value)
            case RemoveTopicRecord() as record:
                name = self._names.pop(record.topic_id, "")
                resource = (TOPIC_RESOURCE, name)
                gone = dict(self._configs.changed.get(resource, {}))
                self._configs.topic_removed(name)
                for key, old in gone.items():
                    if old is not None:
                        self._tell(step, resource, key, old, None, "topic_deleted")
            case ClientQuotaRecord() as record:
                self._quota(step, record)
            case _:
                raise AssertionError(step.message)  # the walk gives no others

    def _quota(self, step: WalkStep, record: ClientQuotaRecord) -> None:
        parts = sorted((e.entity_type, e.entity_name) for e in record.entity)
        entity = ",".join(f"{kind}={'<default>' if name is None else name}" for kind, name in parts)
        old = self._quotas.pop((entity, record.key), None)
        new = None if record.remove else f"{record.value:.15g}"
        if new is not None:
            self._quotas[entity, record.key] = new
        self._row(step, "client-quota", entity, None, record.key, old, new, "")

    def _tell(
        self,
        step: WalkStep,
        resource: tuple[int, str],
        key: str,
        old: str | None,
        new: str | None,
        event: str = "",
    ) -> None:
        kind, name = resource
        topic = name if kind == TOPIC_RESOURCE else None
        if is_sensitive(key, kind):
            old, new = _hidden(old), _hidden(new)
        self._row(step, WORDS.get(kind, str(kind)), name, topic, key, old, new, event)

    def _row(
        self,
        step: WalkStep,
        kind: str,
        name: str,
        topic: str | None,
        key: str,
        old: str | None,
        new: str | None,
        event: str,
    ) -> None:
        if step.from_snapshot and not self.tells_snapshot:
            return
        if step.from_snapshot:
            event = "snapshot"
        event = event or ("deleted" if new is None else "set" if old is None else "changed")
        self.rows.append((*step.moment, kind, name, topic, key, old, new, event))


def _hidden(value: str | None) -> str | None:
    return None if value is None else HIDDEN


TABLE = folded(
    "config_history",
    "Each config and client quota that was set, changed or taken away; secrets are hidden.",
    COLUMNS,
    ConfigHistoryFold,
    options=("topics",),
)
