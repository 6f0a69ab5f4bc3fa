"""`/kafka-acl-changes` and `/kafka-acl-extended-changes`: the notes that the ACLs of a resource changed."""

from __future__ import annotations

from dataclasses import dataclass

from trimaran.wire.errors import RemoteProtocolError
from trimaran.zkcompat.znodes.json_form import decode_json, encode_json, member

ACL_CHANGES = "/kafka-acl-changes"
EXTENDED_ACL_CHANGES = "/kafka-acl-extended-changes"
NOTE_PREFIX = "acl_changes_"


@dataclass(frozen=True, slots=True)
class AclChangeNote:
    """A changed resource. `resource_type` is Kafka's constant, as in TRANSACTIONAL_ID; each root has its own form."""

    resource_type: str
    name: str
    prefixed: bool

    @property
    def prefix(self) -> str:
        """Returns the path to which ZooKeeper appends the number of the note."""
        return f"{EXTENDED_ACL_CHANGES if self.prefixed else ACL_CHANGES}/{NOTE_PREFIX}"

    def encode(self) -> bytes:
        if not self.prefixed:
            return f"{self.resource_type}:{self.name}".encode("utf-8", "surrogatepass")
        return encode_json(
            {
                "version": 1,
                "resourceType": self.resource_type,
                "name": self.name,
                "patternType": "PREFIXED",
            }
        )

    @classmethod
    def decode(cls, data: bytes | None, *, prefixed: bool) -> AclChangeNote:
        if prefixed:
            members = decode_json(data)
            return cls(member(members, "resourceType", str), member(members, "name", str), True)
        kind, colon, name = (data or b"").decode("utf-8", "replace").partition(":")
        if not colon:
            raise RemoteProtocolError("a note of changed ACLs without a resource")
        return cls(kind, name, False)
