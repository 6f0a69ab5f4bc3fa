"""`/kafka-acl/TYPE/NAME` and `/kafka-acl-extended/prefixed/TYPE/NAME`: the ACLs of a resource.

Source: `AclEntry` and `AclEntry.toJsonCompatibleMap` of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.security.acls import Operation, Permission, ResourceType
from trimaran.zkcompat.znodes.json_form import decode_json, encode_json, member

ACLS = "/kafka-acl"
PREFIXED_ACLS = "/kafka-acl-extended/prefixed"


def _words(constant: str) -> str:
    """Converts a constant to Kafka's spelling: TRANSACTIONAL_ID becomes TransactionalId."""
    return "".join(word.capitalize() for word in constant.split("_"))


RESOURCE_WORDS = {kind: _words(kind.name) for kind in ResourceType if kind > ResourceType.ANY}
OPERATION_WORDS = {
    operation: _words(operation.name) for operation in Operation if operation > Operation.ANY
}
PERMISSION_WORDS = {Permission.ALLOW: "Allow", Permission.DENY: "Deny"}
_RESOURCES = {word: kind for kind, word in RESOURCE_WORDS.items()}
_OPERATIONS = {word: operation for operation, word in OPERATION_WORDS.items()}
_PERMISSIONS = {word: each_permission for each_permission, word in PERMISSION_WORDS.items()}


class AclEntry(NamedTuple):
    principal: str
    host: str
    operation: Operation
    permission: Permission


class AclResource(NamedTuple):
    """The resource of ACLs, or a prefix of resource names."""

    type: ResourceType
    name: str
    prefixed: bool

    @property
    def path(self) -> str:
        return f"{PREFIXED_ACLS if self.prefixed else ACLS}/{RESOURCE_WORDS[self.type]}/{self.name}"

    @classmethod
    def of_path(cls, path: str) -> AclResource | None:
        """Returns the resource of a path, None if it has none."""
        prefixed = path.startswith(f"{PREFIXED_ACLS}/")
        kind, slash, name = path.removeprefix(f"{PREFIXED_ACLS if prefixed else ACLS}/").partition(
            "/"
        )
        return cls(_RESOURCES[kind], name, prefixed) if slash and kind in _RESOURCES else None


@dataclass(frozen=True, slots=True)
class AclEntries:
    entries: frozenset[AclEntry]

    def encode(self) -> bytes:
        acls = [
            {
                "principal": entry.principal,
                "permissionType": PERMISSION_WORDS[entry.permission],
                "host": entry.host,
                "operation": OPERATION_WORDS[entry.operation],
            }
            for entry in sorted(self.entries)
        ]
        return encode_json({"acls": acls, "version": 1})

    @classmethod
    def decode(cls, data: bytes | None) -> AclEntries:
        return cls(frozenset(_entries(member(decode_json(data), "acls", list))))


def _entries(values: Iterable[object]) -> Iterable[AclEntry]:
    for value in values:
        if not isinstance(value, dict):
            raise RemoteProtocolError("an ACL that is not a JSON object")
        operation = _OPERATIONS.get(member(value, "operation", str))
        permission = _PERMISSIONS.get(member(value, "permissionType", str))
        if operation is None or permission is None:
            raise RemoteProtocolError("an ACL with an unknown operation or permission")
        principal, host = member(value, "principal", str), member(value, "host", str)
        yield AclEntry(principal, host, operation, permission)
