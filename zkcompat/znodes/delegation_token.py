"""`/delegation_token/tokens/ID` and the notes in `/delegation_token/token_changes`. Tokens are secrets: the password
can be derived from the id and the brokers' key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trimaran.wire.errors import RemoteProtocolError
from trimaran.zkcompat.znodes.json_form import decode_json, encode_json, member
from trimaran.zkcompat.znodes.names import desanitize, sanitize

TOKENS = "/delegation_token/tokens"
TOKEN_CHANGES = "/delegation_token/token_changes"
TOKEN_CHANGE_PREFIX = f"{TOKEN_CHANGES}/token_change_"


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A delegation token. Principals are written like User:alice; times are in milliseconds since 1970."""

    token_id: str
    owner: str
    requester: str
    renewers: Sequence[str]
    issue_ms: int
    expiry_ms: int
    max_ms: int

    @staticmethod
    def path(token_id: str) -> str:
        return f"{TOKENS}/{token_id}"

    def encode(self) -> bytes:
        return encode_json(
            {
                "issueTimestamp": self.issue_ms,
                "renewers": [sanitize(renewer) for renewer in self.renewers],
                "tokenRequester": sanitize(self.requester),
                "tokenId": self.token_id,
                "owner": sanitize(self.owner),
                "expiryTimestamp": self.expiry_ms,
                "maxTimestamp": self.max_ms,
                "version": 3,
            }
        )

    @classmethod
    def decode(cls, data: bytes | None) -> DelegationToken:
        members = decode_json(data)
        renewers = member(members, "renewers", list)
        if not all(isinstance(renewer, str) for renewer in renewers):
            raise RemoteProtocolError("a token whose renewers are no texts")
        return cls(
            token_id=member(members, "tokenId", str),
            owner=desanitize(member(members, "owner", str)),
            requester=desanitize(member(members, "tokenRequester", str)),
            renewers=tuple(desanitize(renewer) for renewer in renewers),
            issue_ms=member(members, "issueTimestamp", int),
            expiry_ms=member(members, "expiryTimestamp", int),
            max_ms=member(members, "maxTimestamp", int),
        )
