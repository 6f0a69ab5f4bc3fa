"""kio, which has a class for every version, reads and writes the same bytes for all its schemas."""

import datetime as dt
import io
import uuid
from collections import defaultdict
from pkgutil import resolve_name

import pytest
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from tests.checks import check_each
from tests.wire.declared import MESSAGES
from tests.wire.random_messages import plan_of, samples
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.codec.declarations import Struct
from trimaran.wire.messages.api_versions import ApiVersionsRequest
from trimaran.wire.messages.fetch import FetchRequest
from trimaran.wire.messages.header import decode_request_header, encode_request

SAMPLES = 3
RENAMED = {
    "kraft_version": "k_raft_version",
    "kraft_version_feature": "k_raft_version_feature",
    "generation_id_or_member_epoch": "generation_id",  # renamed in Kafka 4.4
    "acceptable_recovery_lag_legacy": "acceptable_recovery_lag",  # renamed in Kafka 4.4
}


def kio_paths() -> dict[str, dict[int, str]]:
    """Returns the module in which kio has the class of a message in a version; headers are separate."""
    found = defaultdict(dict)
    for versions in schema_name_map.values():
        for version, kinds in versions.items():
            for kind, path in kinds.items():
                if kind is not EntityType.header:
                    found[path.partition(":")[2]][version] = path
    return dict(found)


PATHS = kio_paths()
OURS = {cls.__name__: cls for cls in MESSAGES}


def plain(theirs):
    """Converts kio's rich types to ours."""
    if isinstance(theirs, uuid.UUID):
        return theirs.bytes
    if isinstance(theirs, dt.timedelta):
        return round(theirs.total_seconds() * 1000)
    if isinstance(theirs, dt.datetime):
        return round(theirs.timestamp() * 1000)
    return theirs


def assert_same(ours, theirs, version):
    if isinstance(ours, Struct):
        plan = plan_of(type(ours), version)
        for p in (*plan.plain, *plan.tagged):
            # kio renames Python's keywords, and turns milliseconds into a timedelta or datetime.
            names = (RENAMED.get(p.name, p.name), f"{p.name}_", p.name.removesuffix("_ms"))
            name = next(n for n in names if hasattr(theirs, n))
            assert_same(getattr(ours, p.name), getattr(theirs, name), version)
    elif isinstance(ours, list):
        for our, their in zip(ours, theirs, strict=True):
            assert_same(our, their, version)
    elif theirs is None:
        assert ours in (None, -1, NIL_UUID)
    else:
        assert ours == plain(theirs)


def test_every_schema_of_kio_is_declared():
    assert PATHS.keys() <= OURS.keys()
    missing = [n for n, found in PATHS.items() for v in found if v not in OURS[n].VERSIONS]
    assert not missing
    assert sum(map(len, PATHS.values())) > 600


def test_kio_has_same_bytes_and_values():
    check_each((OURS[name] for name in PATHS if name in OURS), has_the_same_bytes_and_values)


def has_the_same_bytes_and_values(cls):
    for version, path in PATHS[cls.__name__].items():
        their_class = resolve_name(path)
        read, write = entity_reader(their_class), entity_writer(their_class)
        for message in samples(cls, version, SAMPLES, tame=True):
            encoded = message.encode(version)
            theirs, size = read(encoded, 0)
            assert size == len(encoded)
            assert_same(message, theirs, version)
            out = io.BytesIO()
            write(out, theirs)
            assert out.getvalue() == encoded, version


@pytest.mark.parametrize("client_id", [None, "", "größer"])
@pytest.mark.parametrize(("cls", "version"), [(ApiVersionsRequest, 4), (FetchRequest, 11)])
def test_kio_has_same_request_headers(cls, version, client_id):
    (body,) = samples(cls, version, 1)
    frame = bytes(encode_request(body, version, -7, client_id))
    their_class = resolve_name(
        schema_name_map["request_header"][1 + (version == 4)][EntityType.header]
    )
    theirs, size = entity_reader(their_class)(frame, 0)
    header, position = decode_request_header(frame)
    assert position == size
    assert tuple(header) == (
        theirs.request_api_key,
        theirs.request_api_version,
        theirs.correlation_id,
        theirs.client_id or "",
    )
