"""`acl_history`: ACLs, SCRAM credentials and delegation tokens that came and went. No key and no token is in it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, ClassVar

from trimaran.quorum.metadata.as_json import (
    ACL_RESOURCE_TYPES,
    OPERATIONS,
    PATTERN_TYPES,
    PERMISSIONS,
    name_of,
)
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import EMPTY
from trimaran.quorum.metadata.scram import MECHANISMS
from trimaran.spark.data_source.columns import INT, LONG, STRING, TIMESTAMP, Column
from trimaran.spark.kafka_metadata.log_walk.fold import EventFold, folded
from trimaran.spark.kafka_metadata.log_walk.walk import WalkStep
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

COLUMNS = (
    Column("offset", LONG, "the record"),
    Column("ts", TIMESTAMP, "when the controller wrote it", unit="UTC"),
    Column("controller_epoch", INT, "epoch of the controller that wrote it"),
    Column("kind", STRING, "acl, scram, token"),
    Column("event", STRING, "added, changed, removed, snapshot"),
    Column(
        "id",
        STRING,
        "the ACL's id; user and mechanism; a token's first twelve digits of SHA-256, never itself",
        "AccessControlEntryRecord.id",
    ),
    Column("principal", STRING, "whom it is for", "….principal, UserScramCredentialRecord.name"),
    Column("resource_type", STRING, "of an ACL: TOPIC, GROUP, CLUSTER …", "….resourceType"),
    Column("resource_name", STRING, "of an ACL", "….resourceName"),
    Column("pattern_type", STRING, "LITERAL, PREFIXED", "….patternType"),
    Column("host", STRING, "of an ACL", "….host"),
    Column("operation", STRING, "READ, WRITE …", "….operation"),
    Column("permission", STRING, "ALLOW, DENY", "….permissionType"),
    Column("detail", STRING, "SCRAM: iterations; token: requester, renewers, expiry"),
)


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
        part: Any  # a MapDelta; each has keys and values of its own
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
            part.changed.pop(key, None)  # gone is gone: the map keeps only what lives
        if (old is None and new is None) or (step.from_snapshot and not self.tells_snapshot):
            return
        event = "removed" if new is None else "added" if old is None else "changed"
        if step.from_snapshot:
            event = "snapshot"
        kind, *rest = _told(new or old)
        self.rows.append((*step.moment, kind, event, *rest))


def _told(record: Any) -> tuple[str | None, ...]:
    match record:
        case AccessControlEntryRecord():
            return _acl(record)
        case UserScramCredentialRecord():
            return _scram(record)
        case _:
            return _token(record)


def _acl(acl: AccessControlEntryRecord) -> tuple[str | None, ...]:
    return (
        "acl",
        uuid_to_text(acl.id),
        acl.principal,
        name_of(ACL_RESOURCE_TYPES, acl.resource_type),
        acl.resource_name,
        name_of(PATTERN_TYPES, acl.pattern_type),
        acl.host,
        name_of(OPERATIONS, acl.operation),
        name_of(PERMISSIONS, acl.permission_type),
        None,
    )


_NO_ACL = (None,) * 6


def _scram(record: UserScramCredentialRecord) -> tuple[str | None, ...]:
    mechanism = name_of(MECHANISMS, record.mechanism)
    told = f"{mechanism}, {record.iterations} iterations"
    return ("scram", f"{record.name} {mechanism}", f"User:{record.name}", *_NO_ACL, told)


def _token(record: DelegationTokenRecord) -> tuple[str | None, ...]:
    renewers = ", ".join(record.renewers) or "none"
    told = (
        f"requester {record.requester}; renewers {renewers}; expires {record.expiration_timestamp}"
    )
    return ("token", token_name(record.token_id), record.owner, *_NO_ACL, told)


def token_name(token_id: str) -> str:
    """What tells tokens apart without saying one."""
    return hashlib.sha256(token_id.encode()).hexdigest()[:12]


TABLE = folded(
    "acl_history",
    "ACLs, SCRAM credentials and delegation tokens that came and went; no key and no token is in it.",
    COLUMNS,
    AclHistoryFold,
)
