"""A recorded history: the metadata log of a Kafka 3.9.1 quorum in dual-write, and the writes of its controller to
ZooKeeper.

`dual_write.json` has `batches` (last offset, epoch, records as kafka-dump-log shows them, without idle records) and
`writes`, from ZooKeeper's own transaction log: `[operation, path, data]`, and `["published", offset]` for a change of
`/migration`.
"""

import base64
import json
import re
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimaran.wire.codec.declarations import Struct
from trimaran.wire.records.registry import METADATA_RECORDS
from trimaran.wire.schema import Message

CLASSES = {cls.__name__: cls for cls in METADATA_RECORDS.values()}


@dataclass(frozen=True)
class Batch:
    last_offset: int
    epoch: int
    records: list[Message]


@dataclass(frozen=True)
class Write:
    kind: str
    path: str
    data: str | None


def load() -> tuple[list[Batch], list[tuple[int, list[Write]]]]:
    """Returns (batches, [(offset published after them, writes)])."""
    content = json.loads((Path(__file__).parent / "dual_write.json").read_text())
    batches = [
        Batch(b["last"], b["epoch"], [to_record(*record) for record in b["records"]])
        for b in content["batches"]
    ]
    steps: list[tuple[int, list[Write]]] = []
    pending: list[Write] = []
    for write in content["writes"]:
        if write[0] == "published":
            steps.append((write[1], pending))
            pending = []
        else:
            pending.append(Write(*write))
    return batches, steps


def to_record(kind: str, data: dict[str, Any]) -> Message:
    name = "".join(word.capitalize() for word in kind.split("_"))
    return typing.cast("Message", _build(CLASSES[name], data))


def _build(cls: type, data: dict[str, Any]) -> object:
    types = {f.name: f.annotation for f in cls.__fields__}
    members = {
        re.sub("([A-Z])", lambda m: "_" + m[1].lower(), key): value for key, value in data.items()
    }
    values = {key: _value(types[key], value) for key, value in members.items()}
    for field in cls.__fields__:  # kafka-dump-log omits null and empty members
        if field.name not in values and field.default is None:
            values[field.name] = None
    missing = [f for f in cls.__fields__ if f.name not in values]
    for field in missing:
        if typing.get_origin(field.annotation) is list and field.factory is None:
            values[field.name] = []
    return cls(**values)


def _value(annotation: Any, value: Any) -> Any:
    options = [a for a in typing.get_args(annotation) if a is not type(None)]
    if typing.get_origin(annotation) is list:
        return [_value(options[0], element) for element in value]
    if typing.get_origin(annotation) is not typing.Annotated and options:
        return None if value is None else _value(options[0], value)
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return _build(annotation, value)
    if getattr(annotation, "__metadata__", None):
        wire_name = annotation.__metadata__[0].name
        if wire_name == "uuid":
            return base64.urlsafe_b64decode(value + "==")
        if wire_name == "data":
            return base64.b64decode(value)
    return value
