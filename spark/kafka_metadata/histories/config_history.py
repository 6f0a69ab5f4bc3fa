"""`config_history`: each config and client quota that was set, changed or removed. Secrets are hidden."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from trimaran.quorum.metadata.image import RESOURCE_TYPES, TOPIC_RESOURCE, ConfigsImage
from trimaran.quorum.metadata.other_deltas import ConfigsDelta
from trimaran.spark.data_source.columns import STRING, Column, field
from trimaran.spark.kafka_metadata.log_walk.fold import EventFold, folded, moment_columns
from trimaran.spark.kafka_metadata.log_walk.walk import Moment, WalkStep
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.quotas import ClientQuotaRecord
from trimaran.wire.records.sensitive import is_sensitive
from trimaran.wire.records.topics import RemoveTopicRecord, TopicRecord
from trimaran.wire.schema import Message
from trimaran.wire.text.as_json import HIDDEN

# fmt: off
COLUMNS = (
    *moment_columns(),
    Column("resource_type", STRING, field("kind"), "topic, broker, broker-logger, client-metrics, group, client-quota",
           "ConfigRecord.resourceType"),
    Column("resource_name", STRING, field("resource"),
           "the topic, broker (empty: all brokers) or quota's entity, as user=alice,client-id=…",
           "ConfigRecord.resourceName, ClientQuotaRecord.entity"),
    Column("topic", STRING, field("topic"), "the topic, where it is one"),
    Column("name", STRING, field("name"), "the config", "ConfigRecord.name, ClientQuotaRecord.key"),
    Column("old_value", STRING, field("old"), "before; null: not set"),
    Column("new_value", STRING, field("new"), "after; null: removed", "ConfigRecord.value"),
    Column("event", STRING, field("event"), "set, changed, deleted, topic_deleted, snapshot"),
)
# fmt: on
WORDS = {number: word.lower().replace("_", "-") for number, word in RESOURCE_TYPES.items()}


class ValueChange(NamedTuple):
    """A row: a config or quota before and after a record; `topic` is None for other resources."""

    moment: Moment
    kind: str
    resource: str
    topic: str | None
    name: str
    old: str | None
    new: str | None
    event: str


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
                self._add_config(step, resource, record.name, old, record.value)
            case RemoveTopicRecord() as record:
                name = self._names.pop(record.topic_id, "")
                resource = (TOPIC_RESOURCE, name)
                gone = dict(self._configs.changed.get(resource, {}))
                self._configs.topic_removed(name)
                for key, old in gone.items():
                    if old is not None:
                        self._add_config(step, resource, key, old, None, "topic_deleted")
            case ClientQuotaRecord() as record:
                self._quota(step, record)
            case _:
                raise AssertionError(step.message)  # the walk yields no other types

    def _quota(self, step: WalkStep, record: ClientQuotaRecord) -> None:
        parts = sorted((e.entity_type, e.entity_name) for e in record.entity)
        entity = ",".join(f"{kind}={'<default>' if name is None else name}" for kind, name in parts)
        old = self._quotas.pop((entity, record.key), None)
        new = None if record.remove else f"{record.value:.15g}"
        if new is not None:
            self._quotas[entity, record.key] = new
        self._add(step, "client-quota", entity, record.key, old, new)

    def _add_config(
        self,
        step: WalkStep,
        resource: tuple[int, str],
        key: str,
        old: str | None,
        new: str | None,
        event: str = "",
    ) -> None:
        kind, name = resource
        if is_sensitive(key, kind):
            old, new = _hidden(old), _hidden(new)
        topic = name if kind == TOPIC_RESOURCE else None
        self._add(step, WORDS.get(kind, str(kind)), name, key, old, new, event, topic)

    def _add(
        self,
        step: WalkStep,
        kind: str,
        resource: str,
        key: str,
        old: str | None,
        new: str | None,
        event: str = "",
        topic: str | None = None,
    ) -> None:
        if step.from_snapshot and not self.shows_snapshot:
            return
        if step.from_snapshot:
            event = "snapshot"
        event = event or ("deleted" if new is None else "set" if old is None else "changed")
        row = ValueChange(step.moment, kind, resource, topic, key, old, new, event)
        self.rows.append(row)


def _hidden(value: str | None) -> str | None:
    return None if value is None else HIDDEN


TABLE = folded(
    "config_history",
    "Each config and client quota that was set, changed or removed; secrets are hidden.",
    COLUMNS,
    ConfigHistoryFold,
    options=("topics",),
)
