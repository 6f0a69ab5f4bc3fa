"""Every declaration agrees at every version with Kafka's message JSON, and none is missing.

$KAFKA_DIR is a Kafka source tree, or any directories (separated by colons) with its JSON files, of 3.9 or of 4.4: the
first has the oldest versions, the second the newest. Without it the test is skipped.
"""

import functools
import itertools
import json
import os
import re
from pathlib import Path

import pytest

from tests.checks import check_each
from tests.wire.declared import MESSAGES, versions_of
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.codec.declarations import Versions
from trimaran.wire.codec.plan import FieldPlan, Shape, plan_struct

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


# Fields that Kafka renamed without a change on the wire.
RENAMED_MESSAGES = {
    "ListClientMetricsResourcesRequest": "ListConfigResourcesRequest",
    "ListClientMetricsResourcesResponse": "ListConfigResourcesResponse",
}
RENAMED_FIELDS = {
    ("VoteRequest", "candidate_epoch"): "replica_epoch",
    ("VoteRequest", "candidate_id"): "replica_id",
    ("VoteRequest", "candidate_directory_id"): "replica_directory_id",
    ("ListConfigResourcesResponse", "client_metrics_resources"): "config_resources",
    ("ListConfigResourcesResponse", "name"): "resource_name",
    ("TxnOffsetCommitRequest", "generation_id"): "generation_id_or_member_epoch",
}

# Fields that Kafka added after 3.9 to versions that 3.9 has: as tags, which 3.9 skips, or to early-access versions.
LATER_FIELDS = {
    ("ConsumerGroupCurrentMemberAssignmentValue", "assignment_epochs"),
    ("ConsumerGroupMetadataValue", "metadata_hash"),
    ("ConsumerGroupTargetAssignmentMetadataValue", "assignment_timestamp"),
    ("OffsetCommitValue", "topic_id"),
    ("ReadShareGroupStateSummaryResponse", "leader_epoch"),
    ("RemoteLogSegmentMetadataRecord", "txn_index_empty"),
    ("RemoteLogSegmentMetadataSnapshotRecord", "txn_index_empty"),
    ("ShareGroupMetadataValue", "metadata_hash"),
    ("TransactionLogValue", "client_transaction_version"),
    ("TransactionLogValue", "next_producer_epoch"),
    ("TransactionLogValue", "next_producer_id"),
    ("TransactionLogValue", "previous_producer_id"),
}

GONE_AFTER_3_9 = {"ShareGroupPartitionMetadataKey", "ShareGroupPartitionMetadataValue"}
NEW_AFTER_3_9 = re.compile(
    r"Streams.*|Share(Snapshot|Update)(Key|Value)|LegacyOffsetCommit(Key|Value)"
    r"|ShareGroup(Target|Current|State).*(Key|Value)|ConsumerGroupRegularExpression(Key|Value)"
    r"|(Describe|Alter|Delete)ShareGroupOffsets(Request|Response)"
    r"|ClearElrRecord|ControlRecordTypeSchema|EndTxnMarker|ProducerSnapshot"
)
# Written by hand in `trimaran.wire.messages.header`.
HEADERS = {"RequestHeader", "ResponseHeader"}


@functools.cache
def kafka_json() -> dict[str, dict]:
    """Returns the declarations by name, except those without a version."""
    found = {}
    for root in KAFKA_DIR.split(os.pathsep):
        for path in sorted(Path(root).rglob("*.json")):
            if "test" in path.relative_to(root).parts:
                continue
            declaration = parse(path.read_text())
            if declaration.get("validVersions", "none") != "none":
                name = RENAMED_MESSAGES.get(declaration["name"], declaration["name"])
                found.setdefault(name, declaration)
    return found


def parse(text: str) -> dict:
    """Parses JSON with comments; returns {} for a file that declares no message."""
    if '"validVersions"' not in text:
        return {}
    # A comment is a whole line or follows a value; no string contains " // ".
    text = re.sub(r"(^\s*| )//.*$", "", text, flags=re.MULTILINE)
    return json.loads(re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))


def is_before_4() -> bool:
    return "LeaderAndIsrRequest" in kafka_json()


def versions_in_common(cls: type) -> dict[int, int]:
    """Maps our version to Kafka's: they are the same except for keys of coordinator records: in 3.9 their version was
    their type.
    """
    theirs = Versions.parse(kafka_json()[cls.__name__]["validVersions"])
    if cls.__name__.endswith("Key") and is_before_4():
        return {0: theirs.high}
    return {v: v for v in range(theirs.low, theirs.high + 1)}


def snake(name: str) -> str:
    name = name.replace("KRaft", "Kraft")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def absence(name: str, ignorable: bool, default: object) -> tuple:
    """Returns a field without the attributes that have no effect: the default of an ignorable one."""
    return name, ignorable, None if ignorable and default in ("", []) else default


class KafkaSide:
    """Kafka's declaration of one message in one version, as comparable tuples."""

    def __init__(self, spec: dict, version: int) -> None:
        self.version = version
        self.common = {c["name"]: c["fields"] for c in spec.get("commonStructs", [])}
        self.spec = spec
        self.message = RENAMED_MESSAGES.get(spec["name"], spec["name"])

    def layout(self) -> object:
        return self.struct(self.spec["fields"])

    def name(self, field: dict) -> str:
        name = snake(field["name"])
        return RENAMED_FIELDS.get((self.message, name), name)

    def struct(self, fields: list[dict]) -> object:
        present, tagged, absent = [], [], []
        for field in fields:
            versions = field.get("versions") or field["taggedVersions"]
            if self.version not in Versions.parse(versions):
                ignorable = str(field.get("ignorable", False)).lower() == "true"
                absent.append(absence(self.name(field), ignorable, self.default(field)))
                continue
            null = self.version in Versions.parse(field.get("nullableVersions", "none"))
            seen = (self.name(field), self.type(field["type"], field), null)
            if self.version in Versions.parse(field.get("taggedVersions", "none")):
                tagged.append((int(field["tag"]), *seen, self.default(field)))
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
        if given == "null":
            return None
        if given is None:  # Kafka's generator ignores a null that is not a string
            given = ""
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
    """Our declaration, as the same tuples."""

    def __init__(self, cls: type, version: int) -> None:
        self.cls, self.version = cls, version

    def layout(self) -> object:
        return self.struct(self.cls)

    def struct(self, cls: type) -> object:
        plan = plan_struct(cls, self.version)
        return (
            [self.field(p) for p in plan.plain],
            [(p.field.tag, *self.field(p), self.default(p)) for p in plan.tagged],
            [absence(p.name, p.field.ignorable, self.default(p)) for p in plan.absent],
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


def leave_out_later(cls: type, ours: object, theirs: object) -> object:
    """Returns ours without fields that Kafka added after the version of $KAFKA_DIR: absent at this version, or listed
    above.
    """
    if isinstance(ours, list) and isinstance(theirs, list):
        return [
            leave_out_later(cls, o, t)
            for o, t in itertools.zip_longest(ours, theirs)
            if o is not None
        ]
    if not isinstance(ours, tuple) or not isinstance(theirs, tuple):
        return ours
    if len(ours) == 3 and isinstance(ours[2], list):
        known = {f[0] for f in (*theirs[0], *theirs[2])} | {f[1] for f in theirs[1]}
        later = {name for message, name in LATER_FIELDS if message == cls.__name__} - known
        plain = [f for f in ours[0] if f[0] not in later]
        tagged = [f for f in ours[1] if f[1] not in later]
        absent = sorted(f for f in ours[2] if f[0] in known)
        parts = (leave_out_later(cls, o, t) for o, t in zip((plain, tagged), theirs, strict=False))
        return *parts, absent
    return tuple(leave_out_later(cls, o, t) for o, t in zip(ours, theirs, strict=False))


def test_declarations_equal_those_of_kafka():
    check_each(MESSAGES, matches_kafka)


def matches_kafka(cls: type) -> None:
    spec = kafka_json().get(cls.__name__)
    if spec is None:
        assert is_known_elsewhere(cls.__name__), "no such message in Kafka"
        return
    theirs = versions_in_common(cls)
    assert set(theirs) <= set(versions_of(cls))
    if is_before_4():
        assert min(theirs) == cls.VERSIONS.low
    else:
        assert max(theirs) == cls.VERSIONS.high
    flexible = Versions.parse(spec["flexibleVersions"])
    assert key_of(spec) == cls.KEY
    for version, kafka_version in theirs.items():
        assert (version in cls.FLEXIBLE) == (kafka_version in flexible)
        kafka = KafkaSide(spec, kafka_version).layout()
        ours = leave_out_later(cls, OurSide(cls, version).layout(), kafka)
        assert ours == kafka, version


def key_of(spec: dict) -> int:
    """Returns the api key or record type; before 4.0 a coordinator's record is identified by the version of its key."""
    if spec["type"] == "data" and spec["name"].endswith("Key"):
        return Versions.parse(spec["validVersions"]).high
    if spec["type"] == "data" and spec["name"].endswith("Value"):
        return key_of(kafka_json()[spec["name"].removesuffix("Value") + "Key"])
    return spec.get("apiKey", -1)


def is_known_elsewhere(name: str) -> bool:
    """Whether Kafka's other version (3.9 or 4.4) declares the message."""
    if is_before_4():
        return NEW_AFTER_3_9.fullmatch(name) is not None
    api = re.fullmatch(
        "(LeaderAndIsr|StopReplica|UpdateMetadata|ControlledShutdown)(Request|Response)", name
    )
    return name in GONE_AFTER_3_9 or api is not None


def test_no_message_is_missing():
    assert kafka_json().keys() - HEADERS <= {cls.__name__ for cls in MESSAGES}


def test_every_header_version_is_known():
    """The layouts are in `trimaran.wire.messages.header`; a new version or field here must be added there."""
    request, response = (kafka_json()[name] for name in sorted(HEADERS))
    assert Versions.parse(request["validVersions"]).high == 2
    assert Versions.parse(response["validVersions"]).high == 1
    names = [f["name"] for f in (*request["fields"], *response["fields"])]
    correlation = "CorrelationId"
    assert names == ["RequestApiKey", "RequestApiVersion", correlation, "ClientId", correlation]


def test_compared_messages_are_counted(capsys):
    """Prints how much was compared."""
    compared = [cls for cls in MESSAGES if cls.__name__ in kafka_json()]
    versions = sum(len(versions_in_common(cls)) for cls in compared)
    assert len(compared) == len(kafka_json().keys() - HEADERS)
    with capsys.disabled():
        print(
            f"\n{len(compared)} messages, {versions} versions of them compared; "
            f"{len(MESSAGES)} messages with {sum(map(len, map(versions_of, MESSAGES)))} versions are declared"
        )
