"""`acl_history`: added and removed ACLs, SCRAM credentials and delegation tokens. It contains no keys and no tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from trimaran.quorum.metadata.as_json import (
    ACL_RESOURCE_TYPES,
    OPERATIONS,
    PATTERN_TYPES,
    PERMISSIONS,
    name_of,
)
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import EMPTY
from trimaran.spark.data_source.columns import STRING, Column, field
from trimaran.spark.kafka_metadata.log_walk.fold import EventFold, folded, moment_columns
from trimaran.spark.kafka_metadata.log_walk.walk import Moment, WalkStep
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.records.security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from trimaran.wire.schema import Message
from trimaran.wire.security.sasl.scram import SCRAM_MECHANISMS

# fmt: off
COLUMNS = (
    *moment_columns(),
    Column("kind", STRING, field("subject.kind"), "acl, scram, token"),
    Column("event", STRING, field("event"), "added, changed, removed, snapshot"),
    Column("id", STRING, field("subject.id"),
           "the ACL's id; user and mechanism; a token's first twelve digits of SHA-256, never itself",
           "AccessControlEntryRecord.id"),
    Column("principal", STRING, field("subject.principal"), "its principal",
           "….principal, UserScramCredentialRecord.name"),
    Column("resource_type", STRING, field("subject.resource_type"), "of an ACL: TOPIC, GROUP, CLUSTER …",
           "….resourceType"),
    Column("resource_name", STRING, field("subject.resource_name"), "of an ACL", "….resourceName"),
    Column("pattern_type", STRING, field("subject.pattern_type"), "LITERAL, PREFIXED", "….patternType"),
    Column("host", STRING, field("subject.host"), "of an ACL", "….host"),
    Column("operation", STRING, field("subject.operation"), "READ, WRITE …", "….operation"),
    Column("permission", STRING, field("subject.permission"), "ALLOW, DENY", "….permissionType"),
    Column("detail", STRING, field("subject.detail"), "SCRAM: iterations; token: requester, renewers, expiry"),
)
# fmt: on


class Subject(NamedTuple):
    """An ACL, a SCRAM credential or a delegation token as shown in its row, without secrets."""

    kind: str
    id: str
    principal: str
    resource_type: str | None = None
    resource_name: str | None = None
    pattern_type: str | None = None
    host: str | None = None
    operation: str | None = None
    permission: str | None = None
    detail: str | None = None


class AclChange(NamedTuple):
    """A row: a subject that was added, changed or removed."""

    moment: Moment
    event: str
    subject: Subject


class AclHistoryFold(EventFold):
    RECORDS: ClassVar[Sequence[type[Message]]] = (
        AccessControlEntryRecord,
        RemoveAccessControlEntryRecord,
        UserScramCredentialRecord,
        RemoveUserScramCredentialRecord,
        DelegationTokenRecord,
        RemoveDelegationTokenRecord,
    )

    def __init__(self) -> None:
        super().__init__()
        self._delta = MetadataDelta(EMPTY)

    def take(self, step: WalkStep) -> None:
        message = step.message
        part: Any  # a MapDelta; each map has its own types of keys and values
        key: Any
        match message:
            case AccessControlEntryRecord() | RemoveAccessControlEntryRecord():
                part, key = self._delta.acls, message.id
            case UserScramCredentialRecord() | RemoveUserScramCredentialRecord():
                part, key = self._delta.scram, (message.name, message.mechanism)
            case _:
                part, key = self._delta.tokens, message.token_id
        old = part.changed.get(key)
        self._delta.replay(message)
        new = part.changed.get(key)
        if new is None:
            part.changed.pop(key, None)  # the map has only existing entries
        if (old is None and new is None) or (step.from_snapshot and not self.shows_snapshot):
            return
        event = "removed" if new is None else "added" if old is None else "changed"
        if step.from_snapshot:
            event = "snapshot"
        self.rows.append(AclChange(step.moment, event, _subject(new or old)))


def _subject(record: Any) -> Subject:
    match record:
        case AccessControlEntryRecord():
            return _acl(record)
        case UserScramCredentialRecord():
            return _scram(record)
        case _:
            return _token(record)


def _acl(acl: AccessControlEntryRecord) -> Subject:
    return Subject(
        "acl",
        uuid_to_text(acl.id),
        acl.principal,
        resource_type=name_of(ACL_RESOURCE_TYPES, acl.resource_type),
        resource_name=acl.resource_name,
        pattern_type=name_of(PATTERN_TYPES, acl.pattern_type),
        host=acl.host,
        operation=name_of(OPERATIONS, acl.operation),
        permission=name_of(PERMISSIONS, acl.permission_type),
    )


def _scram(record: UserScramCredentialRecord) -> Subject:
    mechanism = name_of(SCRAM_MECHANISMS, record.mechanism)
    detail = f"{mechanism}, {record.iterations} iterations"
    return Subject("scram", f"{record.name} {mechanism}", f"User:{record.name}", detail=detail)


def _token(record: DelegationTokenRecord) -> Subject:
    renewers = ", ".join(record.renewers) or "none"
    detail = (
        f"requester {record.requester}; renewers {renewers}; expires {record.expiration_timestamp}"
    )
    return Subject("token", token_name(record.token_id), record.owner, detail=detail)


def token_name(token_id: str) -> str:
    """Returns a text that distinguishes tokens without revealing them."""
    return hashlib.sha256(token_id.encode()).hexdigest()[:12]


TABLE = folded(
    "acl_history",
    "ACLs, SCRAM credentials and delegation tokens that were added or removed, without keys and tokens.",
    COLUMNS,
    AclHistoryFold,
)
