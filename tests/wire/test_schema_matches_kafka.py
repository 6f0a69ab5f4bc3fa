"""Every declaration says, at every version, what Kafka's own message JSON says.

$KAFKA_DIR is a Kafka source tree, or any directories (separated by colons) with its JSON files;
without it the test is skipped.
"""

import functools
import json
import os
import re
from pathlib import Path

import pytest

from tests.wire.declared import MESSAGES, case_id, versions_of
from wire.codec.plan import FieldPlan, Shape, plan_struct
from wire.primitives import NIL_UUID
from wire.schema import Versions

KAFKA_DIR = os.environ.get("KAFKA_DIR")

pytestmark = pytest.mark.skipif(KAFKA_DIR is None, reason="KAFKA_DIR is not set")

ZEROS = {
    "bool": False,
    "string": "",
    "bytes": b"",
    "records": None,
    "uuid": NIL_UUID,
    "float64": 0.0,
}


@functools.cache
def kafka_json() -> dict[str, dict]:
    found = {}
    for root in KAFKA_DIR.split(os.pathsep):
        for path in Path(root).rglob("*.json"):
            # A comment is a line of its own, or stands behind one; no string contains " // ".
            text = re.sub(r"(^\s*| )//.*$", "", path.read_text(), flags=re.MULTILINE)
            if '"validVersions"' in text:
                declaration = json.loads(text)
                found.setdefault(declaration["name"], declaration)
    return found


def stable_versions(name: str) -> Versions:
    spec = kafka_json()[name]
    versions = Versions.parse(spec["validVersions"])
    request = kafka_json().get(name.replace("Response", "Request"), spec)
    unstable = request.get("latestVersionUnstable", False)
    return Versions(versions.low, versions.high - unstable)


def snake(name: str) -> str:
    name = name.replace("KRaft", "Kraft")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


class KafkaSide:
    """Kafka's view of one message in one version, in comparable tuples."""

    def __init__(self, spec: dict, version: int) -> None:
        self.version = version
        self.common = {c["name"]: c["fields"] for c in spec.get("commonStructs", [])}
        self.spec = spec

    def layout(self) -> object:
        return self.struct(self.spec["fields"])

    def struct(self, fields: list[dict]) -> object:
        present, tagged, absent = [], [], []
        for field in fields:
            versions = field.get("versions") or field["taggedVersions"]
            if self.version not in Versions.parse(versions):
                absent.append(
                    (snake(field["name"]), field.get("ignorable", False), self.default(field))
                )
                continue
            null = self.version in Versions.parse(field.get("nullableVersions", "none"))
            seen = (snake(field["name"]), self.type(field["type"], field), null)
            if self.version in Versions.parse(field.get("taggedVersions", "none")):
                tagged.append((field["tag"], *seen, self.default(field)))
            else:
                present.append(seen)
        return present, sorted(tagged, key=lambda t: t[0]), sorted(absent)

    def type(self, name: str, field: dict) -> object:
        if name.startswith("[]"):
            return [self.type(name[2:], field)]
        if name[0].isupper():
            return self.struct(field.get("fields") or self.common[name])
        return name

    def default(self, field: dict) -> object:
        kind, given = field["type"], field.get("default", "")
        if given in (None, "null"):
            return None
        if kind.startswith("[]"):
            return []
        if kind[0].isupper():
            return "struct"
        if given == "":
            return ZEROS.get(kind, 0)
        if kind == "bool":
            return str(given).lower() == "true"
        return given if kind == "string" else int(str(given), 0)


class OurSide:
    """The same of our declaration."""

    def __init__(self, cls: type, version: int) -> None:
        self.cls, self.version = cls, version

    def layout(self) -> object:
        return self.struct(self.cls)

    def struct(self, cls: type) -> object:
        plan = plan_struct(cls, self.version)
        return (
            [self.field(p) for p in plan.plain],
            [(p.field.tag, *self.field(p), self.default(p)) for p in plan.tagged],
            [(p.name, p.field.ignorable, self.default(p)) for p in plan.absent],
        )

    def field(self, p: FieldPlan) -> tuple:
        return p.name, self.type(p.shape), p.nullable

    def type(self, shape: Shape) -> object:
        if shape.item is not None:
            return [self.type(shape.item)]
        return self.struct(shape.struct) if shape.struct is not None else shape.wire.name

    def default(self, p: FieldPlan) -> object:
        if p.field.factory is not None:
            return [] if p.field.factory is list else "struct"
        return p.field.default


def drop_never_present(kafka: object, ours: object) -> object:
    """Leaves out Kafka's absent fields that no version of ours has: they cannot be set."""
    if isinstance(kafka, list):
        return [drop_never_present(k, o) for k, o in zip(kafka, ours, strict=True)]
    if isinstance(kafka, tuple) and len(kafka) == 3 and isinstance(kafka[2], list):
        plain, tagged, absent = kafka
        names = {name for name, *_ in ours[2]}
        return (
            [drop_never_present(k, o) for k, o in zip(plain, ours[0], strict=True)],
            [drop_never_present(k, o) for k, o in zip(tagged, ours[1], strict=True)],
            sorted(a for a in absent if a[0] in names),
        )
    if isinstance(kafka, tuple):
        return tuple(drop_never_present(k, o) for k, o in zip(kafka, ours, strict=True))
    return kafka


@pytest.mark.parametrize("cls", MESSAGES, ids=case_id)
def test_declaration_matches(cls):
    if cls.__name__ not in kafka_json():
        pytest.skip(f"$KAFKA_DIR has no {cls.__name__}.json")
    spec = kafka_json()[cls.__name__]
    assert stable_versions(cls.__name__) == cls.VERSIONS
    assert Versions.parse(spec["flexibleVersions"]) == cls.FLEXIBLE
    assert spec.get("apiKey", -1) == cls.KEY
    for version in versions_of(cls):
        ours = OurSide(cls, version).layout()
        kafka = KafkaSide(spec, version).layout()
        assert drop_never_present(kafka, ours) == normalized(ours), version


def normalized(ours: object) -> object:
    """Absent fields have no order."""
    if isinstance(ours, list):
        return [normalized(o) for o in ours]
    if isinstance(ours, tuple) and len(ours) == 3 and isinstance(ours[2], list):
        return normalized(ours[0]), normalized(ours[1]), sorted(ours[2])
    return tuple(normalized(o) for o in ours) if isinstance(ours, tuple) else ours


def test_no_field_is_missing():
    """A field present in some served version of Kafka is present in ours (absences included)."""
    for cls in MESSAGES:
        if cls.__name__ in kafka_json():
            fields = {f.name for f in cls.__fields__}
            served = stable_versions(cls.__name__)
            for field in kafka_json()[cls.__name__]["fields"]:
                versions = Versions.parse(field.get("versions") or field["taggedVersions"])
                if max(versions.low, served.low) <= min(versions.high, served.high):
                    assert snake(field["name"]) in fields, cls.__name__
