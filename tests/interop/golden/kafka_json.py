"""Our messages in the JSON of Kafka's generated `…JsonConverter` classes.

Names are camelCase with irregular capitals (`lastKnownELR`), so they are looked up in the class. Bytes are base64,
UUIDs Kafka's text; a tagged field is always passed to Kafka, and returned if it is not the default. Records are
returned only as their size, because their bytes are compared in the encoded message.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from tests.wire.random_messages import plan_of
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.codec.declarations import Struct
from trimaran.wire.codec.plan import Shape

Names = Mapping[str, str]

# Fields that have other names in later versions of Kafka; the encoding did not change.
RENAMED = {
    "generationId": "generationIdOrMemberEpoch",  # a field of TxnOffsetCommit
    "candidateEpoch": "replicaEpoch",
    "candidateId": "replicaId",
    "candidateDirectoryId": "replicaDirectoryId",
    "clientMetricsResources": "configResources",
    "name": "resourceName",  # a field of ListClientMetricsResources
}


def names_of(fields: Sequence[str]) -> Names:
    """Returns Kafka's names by their lower-case form without underscores, which our names share."""
    later = {RENAMED[name].lower(): name for name in fields if name in RENAMED}
    return later | {name.lower(): name for name in fields}


def is_named(name: str, names: Names) -> bool:
    return name.replace("_", "") in names


def kafka_json(message: Struct, version: int, names: Names, *, sizes: bool) -> dict[str, Any]:
    """Returns Kafka's input, or, with `sizes` in place of records, its output."""
    plan = plan_of(type(message), version)
    shown: dict[str, Any] = {}
    for p in plan.plain:
        name = names[p.name.replace("_", "")]
        value = getattr(message, p.name)
        if sizes and value is not None and p.shape.wire and p.shape.wire.name == "records":
            shown[f"{name}SizeInBytes"] = len(value)
        else:
            shown[name] = _value(value, p.shape, version, names, sizes)
    for p in plan.tagged:
        value = getattr(message, p.name)
        default = p.field.factory() if p.field.factory else p.field.default
        if value != default or (not sizes and is_named(p.name, names)):
            shown[names[p.name.replace("_", "")]] = _value(value, p.shape, version, names, sizes)
    return shown


def _value(value: Any, shape: Shape, version: int, names: Names, sizes: bool) -> Any:
    if value is None:
        return None
    if shape.struct is not None:
        return kafka_json(value, version, names, sizes=sizes)
    if shape.item is not None:
        return [_value(item, shape.item, version, names, sizes) for item in value]
    match shape.wire.name:
        case "uuid":
            return uuid_to_text(value)
        case "bytes" | "records":
            return base64.b64encode(value).decode()
        case _:
            return value
