"""Messages in which a case sets only the relevant fields; every other field is zero, empty or null."""

from __future__ import annotations

from typing import Any, TypeVar

from trimaran.wire.codec.declarations import Struct
from trimaran.wire.codec.plan import FieldPlan, plan_struct

S = TypeVar("S", bound=Struct)
_ZEROES: dict[str, Any] = {
    "string": "",
    "bytes": b"",
    "bool": False,
    "uuid": bytes(16),
    "float64": 0.0,
}


def made(cls: type[S], version: int | None = None, **given: Any) -> S:
    """Returns a message that `version` (by default the newest) can encode."""
    required = {f.name for f in cls.__fields__ if f.required}
    values = {
        p.name: _zero(p)
        for p in plan_struct(cls, _newest(cls) if version is None else version).plain
        if p.name in required and p.name not in given
    }
    return cls(**values, **given)


def _newest(cls: type[Struct]) -> int:
    """Returns the newest version; for a struct any version will do, because every version has the required fields."""
    versions = getattr(cls, "VERSIONS", None)
    return versions.high if versions is not None else 99


def _zero(p: FieldPlan) -> Any:
    if p.nullable:
        return None
    if p.shape.item is not None:
        return []
    if p.shape.struct is not None:
        return made(p.shape.struct)
    return _ZEROES.get(p.shape.wire.name, 0) if p.shape.wire else None
