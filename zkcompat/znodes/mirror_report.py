"""`/trimaran/mirrors/SESSION`: the report of a leading or standby mirror about itself. It is ours, not Kafka's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import Offset
from trimaran.zkcompat.znodes.json_form import decode_json, encode_json, member

REPORT_PARENTS = ("/trimaran", "/trimaran/mirrors")
REFUSALS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class MirrorReport:
    """Times are milliseconds since 1970; `quorum_heard_ms` is the time of the quorum's last commit, -1 for none.

    `lag_ms` is the age of the oldest change that the tree does not show. `refusals` are sentences, the first of
    `quarantined`. `unknown` names the records of a later Kafka that the quorum has: the tree may lack their changes.
    """

    VERSION: ClassVar = 1
    host: str
    pid: int
    state: str
    told_ms: int
    published_offset: Offset
    quorum_offset: Offset
    lag_ms: int
    quorum_heard_ms: int
    claims: int
    repairs: int
    quarantined: int
    refusals: Sequence[str]
    last_problem: str
    unknown: str = ""

    @staticmethod
    def path(session_id: int) -> str:
        return f"{REPORT_PARENTS[-1]}/{session_id & (1 << 64) - 1:016x}"

    @property
    def leads(self) -> bool:
        return self.state in ("in step", "comparing")

    def encode(self) -> bytes:
        members: dict[str, Any] = {"version": self.VERSION}
        for name in _TEXTS + _NUMBERS:
            members[name] = getattr(self, name)
        return encode_json({**members, "refusals": list(self.refusals[:REFUSALS_SHOWN])})

    @classmethod
    def decode(cls, data: bytes | None) -> MirrorReport:
        members = decode_json(data)
        if member(members, "version", int) != cls.VERSION:
            raise RemoteProtocolError("a report of a later mirror")
        values: Mapping[str, Any] = {
            # A mirror of an earlier version does not report unknown records.
            **{name: member({"unknown": "", **members}, name, str) for name in _TEXTS},
            **{name: _number(members, name) for name in _NUMBERS},
        }
        refusals = tuple(str(refusal) for refusal in member(members, "refusals", list))
        return cls(**values, refusals=refusals)


def _number(members: dict[str, Any], name: str) -> int:
    """Returns a number of at most 64 bits, since readers calculate with it."""
    value = member(members, name, int)
    if not -(1 << 63) <= value < 1 << 63:
        raise RemoteProtocolError(f"a report whose {name!r} has more than 64 bits")
    return value


_TEXTS = ("host", "state", "last_problem", "unknown")
_NUMBERS = (
    "pid",
    "told_ms",
    "published_offset",
    "quorum_offset",
    "lag_ms",
    "quorum_heard_ms",
    "claims",
    "repairs",
    "quarantined",
)
