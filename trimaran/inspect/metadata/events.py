"""Describes batches of the metadata log: an event for each change that interests an operator. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from trimaran.log.batches.records import decode_records
from trimaran.node.text.wording import entity_text
from trimaran.quorum.metadata.as_json import OPERATIONS, PERMISSIONS, name_of
from trimaran.quorum.metadata.epochs import leader_change
from trimaran.quorum.metadata.image import RESOURCE_TYPES, MetadataImage, PartitionImage
from trimaran.wire.identity import BrokerId, Offset, TopicIdPartition
from trimaran.wire.records import brokers, configs, features, misc, quotas, security, topics
from trimaran.wire.records.metadata import UnknownRecord, read_metadata_record
from trimaran.wire.records.sensitive import is_sensitive
from trimaran.wire.text.as_json import HIDDEN

if TYPE_CHECKING:
    from trimaran.log.batches.batch import BatchView

KINDS = ("election", "broker", "topic", "partition", "config", "feature", "access", "quota")
# The newest changes of each partition, and the partitions that changed last: about 20 MB.
CHANGES_PER_PARTITION = 50
PARTITIONS_MAX = 50_000
_NO_LEADER_CHANGE = -2


@dataclass(frozen=True, slots=True)
class MetadataEvent:
    """An event. `level` is info, warn or bad. `subject` is the name of its subject, `link` its page in the console;
    both may be empty.
    """

    offset: Offset
    timestamp_ms: int
    kind: str
    level: str
    subject: str
    text: str
    link: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """The state of a partition from an offset on."""

    offset: Offset
    timestamp_ms: int
    leader: BrokerId
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A change of a config of a resource, with the resource's kind (`topic`) and name, and the previous value; None
    means no value. Secrets are hidden.
    """

    offset: Offset
    timestamp_ms: int
    kind: str
    resource: str
    key: str
    value: str | None
    before: str | None

    @property
    def address(self) -> str:
        """`topic/orders`; `broker` for all brokers."""
        return f"{self.kind}/{self.resource}".removesuffix("/")


@dataclass(slots=True)
class Happened:
    """The events of one batch. `is_idle` means that it has only NoOpRecords. `changes` are by topic id and
    partition.
    """

    events: list[MetadataEvent] = field(default_factory=list)
    configs: list[ConfigChange] = field(default_factory=list)
    changes: dict[TopicIdPartition, Change] = field(default_factory=dict)
    is_idle: bool = True


class PartitionHistory:
    """The newest leaders and ISRs of each partition."""

    def __init__(self) -> None:
        self._changes: dict[TopicIdPartition, deque[Change]] = {}

    def add(self, changes: dict[TopicIdPartition, Change]) -> None:
        for key, change in changes.items():
            known = self._changes.pop(key, None) or deque(maxlen=CHANGES_PER_PARTITION)
            known.append(change)
            self._changes[key] = known
            if len(self._changes) > PARTITIONS_MAX:
                del self._changes[next(iter(self._changes))]

    def of(self, partition: TopicIdPartition) -> list[Change]:
        """Returns the changes of a partition, the oldest first."""
        return list(self._changes.get(partition, ()))


@dataclass(frozen=True, slots=True)
class _Moment:
    """The place of a record, and the images before and after its batch: the names of removed entities are only in the
    former.
    """

    offset: Offset
    timestamp_ms: int
    before: MetadataImage
    after: MetadataImage

    def event(
        self, kind: str, subject: str, text: str, *, level: str = "info", link: str = ""
    ) -> MetadataEvent:
        return MetadataEvent(self.offset, self.timestamp_ms, kind, level, subject, text, link)

    def topic_name(self, topic_id: bytes) -> str | None:
        found = self.after.topics.by_id.get(topic_id) or self.before.topics.by_id.get(topic_id)
        return None if found is None else found.name

    def partition_before(self, key: TopicIdPartition) -> PartitionImage | None:
        topic = self.before.topics.by_id.get(key.topic_id)
        return None if topic is None else topic.partitions.get(key.partition)


def events_of(batch: BatchView, before: MetadataImage, after: MetadataImage) -> Happened:
    """Returns the events of a batch; `before` and `after` are the images around it."""
    found = Happened()
    if batch.is_control:
        found.is_idle = False
        change = leader_change(batch)
        if change is not None:
            moment = _Moment(batch.base_offset, batch.base_timestamp, before, after)
            subject = f"controller {change.leader_id}"
            text = f"leads the quorum in epoch {batch.leader_epoch}"
            found.events.append(moment.event("election", subject, text, link="/quorum"))
        return found
    for record in decode_records(batch):
        message = read_metadata_record(record.value or b"", record.offset)
        if isinstance(message, misc.NoOpRecord):
            continue
        found.is_idle = False
        moment = _Moment(record.offset, record.timestamp_ms, before, after)
        tell = _TELLERS.get(type(message))
        if tell is not None:
            found.events.extend(tell(moment, message))
        _follow(found, moment, message)
    found.events = _together(found.events)
    return found


def _together(events: list[MetadataEvent]) -> list[MetadataEvent]:
    """Joins the changes of one request to one resource into one event."""
    told: list[MetadataEvent] = []
    for event in events:
        last = told[-1] if told else None
        if last and event.kind == last.kind == "config" and event.subject == last.subject:
            told[-1] = replace(last, offset=event.offset, text=f"{last.text}, {event.text}")
        else:
            told.append(event)
    return told


def _follow(found: Happened, moment: _Moment, message: Any) -> None:
    """Records the change of a partition or config by the record."""
    if isinstance(message, configs.ConfigRecord):
        found.configs.append(_config_change(moment, message))
    if not isinstance(message, topics.PartitionRecord | topics.PartitionChangeRecord):
        return
    topic = moment.after.topics.by_id.get(message.topic_id)
    now = None if topic is None else topic.partitions.get(message.partition_id)
    if now is not None:
        found.changes[TopicIdPartition(message.topic_id, message.partition_id)] = Change(
            moment.offset, moment.timestamp_ms, now.leader, now.isr, now.replicas
        )


def _topic(name: str) -> str:
    return f"/topics/{quote(name, safe='')}"


def _unknown(moment: _Moment, record: UnknownRecord) -> Iterator[MetadataEvent]:
    text = f"of version {record.version} is of a later Kafka: what it changes is not shown"
    yield moment.event("unknown", f"record type {record.type}", text, level="warn")


def _topic_created(moment: _Moment, record: topics.TopicRecord) -> Iterator[MetadataEvent]:
    topic = moment.after.topics.by_id.get(record.topic_id)
    count = 0 if topic is None else len(topic.partitions)
    text = f"was created with {count} partition{'' if count == 1 else 's'}"
    yield moment.event("topic", record.name, text, link=_topic(record.name))


def _topic_removed(moment: _Moment, record: topics.RemoveTopicRecord) -> Iterator[MetadataEvent]:
    name = moment.topic_name(record.topic_id) or "a topic"
    yield moment.event("topic", name, "was deleted", level="warn")


def _partition_changed(
    moment: _Moment, record: topics.PartitionChangeRecord
) -> Iterator[MetadataEvent]:
    name = moment.topic_name(record.topic_id)
    was = moment.partition_before(TopicIdPartition(record.topic_id, record.partition_id))
    if name is None or was is None:
        return
    subject, link = f"{name}-{record.partition_id}", _topic(name)
    if record.leader not in (_NO_LEADER_CHANGE, was.leader):
        level = "bad" if record.leader < 0 else "info"
        text = "has no leader" if record.leader < 0 else f"is led by broker {record.leader}"
        before = "by none" if was.leader < 0 else f"by {was.leader}"
        yield moment.event("partition", subject, f"{text}, before {before}", level=level, link=link)
    if record.isr is not None and set(record.isr) != set(was.isr):
        gone, came = sorted(set(was.isr) - set(record.isr)), sorted(set(record.isr) - set(was.isr))
        words = [f"lost {_numbers(gone)}"] if gone else []
        words += [f"gained {_numbers(came)}"] if came else []
        text = f"in-sync replicas {' and '.join(words)}; now {_numbers(record.isr)}"
        yield moment.event("partition", subject, text, level="warn" if gone else "info", link=link)
    if record.replicas is not None and list(record.replicas) != list(was.replicas):
        text = f"is on brokers {_numbers(record.replicas)}, before on {_numbers(was.replicas)}"
        yield moment.event("partition", subject, text, link=link)


def _numbers(ids: Any) -> str:
    return ", ".join(map(str, ids)) or "none"


def _broker(moment: _Moment, id_: int, text: str, level: str = "info") -> MetadataEvent:
    return moment.event("broker", f"broker {id_}", text, level=level, link=f"/brokers/{id_}")


def _registered(moment: _Moment, record: brokers.RegisterBrokerRecord) -> Iterator[MetadataEvent]:
    yield _broker(moment, record.broker_id, "registered")


def _unregistered(
    moment: _Moment, record: brokers.UnregisterBrokerRecord
) -> Iterator[MetadataEvent]:
    yield _broker(moment, record.broker_id, "was unregistered", "warn")


def _fenced(moment: _Moment, record: brokers.FenceBrokerRecord) -> Iterator[MetadataEvent]:
    yield _broker(moment, record.id, "was fenced", "bad")


def _unfenced(moment: _Moment, record: brokers.UnfenceBrokerRecord) -> Iterator[MetadataEvent]:
    yield _broker(moment, record.id, "is active again")


def _registration_changed(
    moment: _Moment, record: brokers.BrokerRegistrationChangeRecord
) -> Iterator[MetadataEvent]:
    if record.fenced > 0:
        yield _broker(moment, record.broker_id, "was fenced", "bad")
    if record.fenced < 0:
        yield _broker(moment, record.broker_id, "is active")
    if record.in_controlled_shutdown > 0:
        yield _broker(moment, record.broker_id, "is shutting down", "warn")


def _controller(
    moment: _Moment, record: brokers.RegisterControllerRecord
) -> Iterator[MetadataEvent]:
    subject = f"controller {record.controller_id}"
    yield moment.event("broker", subject, "registered", link="/quorum")


def _controller_gone(
    moment: _Moment, record: brokers.UnregisterControllerRecord
) -> Iterator[MetadataEvent]:
    subject = f"controller {record.controller_id}"
    yield moment.event("broker", subject, "was unregistered", level="warn", link="/quorum")


def _config(moment: _Moment, record: configs.ConfigRecord) -> Iterator[MetadataEvent]:
    change = _config_change(moment, record)
    subject = f"{change.kind} {change.resource or '(all)'}"
    link = _topic(change.resource) if change.kind == "topic" else ""
    text = (
        f"{change.key} was reset to its default"
        if change.value is None
        else f"{change.key}={change.value}"
    )
    yield moment.event("config", subject, text, link=link)


def _config_change(moment: _Moment, record: configs.ConfigRecord) -> ConfigChange:
    was = moment.before.configs.of(record.resource_type, record.resource_name).get(record.name)
    return ConfigChange(
        moment.offset,
        moment.timestamp_ms,
        kind_of(record.resource_type),
        record.resource_name,
        record.name,
        shown(record.resource_type, record.name, record.value),
        shown(record.resource_type, record.name, was),
    )


def kind_of(resource_type: int) -> str:
    """Returns the name of a kind, such as `topic` or `client-metrics`."""
    return name_of(RESOURCE_TYPES, resource_type).lower().replace("_", "-")


def shown(resource_type: int, key: str, value: str | None) -> str | None:
    """Returns the value of a config, hidden if it is a secret."""
    return HIDDEN if value is not None and is_sensitive(key, resource_type) else value


def _feature(moment: _Moment, record: features.FeatureLevelRecord) -> Iterator[MetadataEvent]:
    yield moment.event("feature", record.name, f"was set to level {record.feature_level}")


def _acl(moment: _Moment, record: security.AccessControlEntryRecord) -> Iterator[MetadataEvent]:
    permission = name_of(PERMISSIONS, record.permission_type).lower()
    operation = name_of(OPERATIONS, record.operation).lower().replace("_", "-")
    text = f"{permission} {operation} on {record.resource_name}"
    yield moment.event("access", record.principal, text, link="/access")


def _acl_removed(
    moment: _Moment, record: security.RemoveAccessControlEntryRecord
) -> Iterator[MetadataEvent]:
    was = moment.before.acls.get(record.id)
    who = was.principal if was is not None else "an ACL"
    what = f" on {was.resource_name}" if was is not None else ""
    yield moment.event("access", who, f"an ACL{what} was removed", level="warn", link="/access")


def _scram(moment: _Moment, record: security.UserScramCredentialRecord) -> Iterator[MetadataEvent]:
    yield moment.event("access", f"User:{record.name}", "got a new password", link="/access")


def _scram_removed(
    moment: _Moment, record: security.RemoveUserScramCredentialRecord
) -> Iterator[MetadataEvent]:
    subject = f"User:{record.name}"
    yield moment.event("access", subject, "lost its password", level="warn", link="/access")


def _quota(moment: _Moment, record: quotas.ClientQuotaRecord) -> Iterator[MetadataEvent]:
    subject = entity_text({part.entity_type: part.entity_name for part in record.entity})
    text = f"{record.key} was deleted" if record.remove else f"{record.key}={record.value:g}"
    yield moment.event("quota", subject, text)


_TELLERS: dict[type, Callable[[_Moment, Any], Iterator[MetadataEvent]]] = {
    topics.TopicRecord: _topic_created,
    topics.RemoveTopicRecord: _topic_removed,
    topics.PartitionChangeRecord: _partition_changed,
    brokers.RegisterBrokerRecord: _registered,
    brokers.UnregisterBrokerRecord: _unregistered,
    brokers.FenceBrokerRecord: _fenced,
    brokers.UnfenceBrokerRecord: _unfenced,
    brokers.BrokerRegistrationChangeRecord: _registration_changed,
    brokers.RegisterControllerRecord: _controller,
    brokers.UnregisterControllerRecord: _controller_gone,
    configs.ConfigRecord: _config,
    features.FeatureLevelRecord: _feature,
    security.AccessControlEntryRecord: _acl,
    security.RemoveAccessControlEntryRecord: _acl_removed,
    security.UserScramCredentialRecord: _scram,
    security.RemoveUserScramCredentialRecord: _scram_removed,
    quotas.ClientQuotaRecord: _quota,
    UnknownRecord: _unknown,
}
