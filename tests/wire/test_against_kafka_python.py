"""kafka-python, which reads Kafka's JSON at run time, reads and writes the same bytes: all messages it has JSON for."""

import importlib
import pkgutil
import uuid
import warnings
from importlib import resources

import pytest

from tests.wire.declared import MESSAGES, case_id
from tests.wire.random_messages import plan_of, samples
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.codec.declarations import Struct
from trimaran.wire.messages.api_versions import ApiVersionsResponse

SAMPLES = 3
PACKAGES = ("admin", "consumer", "metadata", "producer", "sasl")


def _load() -> dict[str, type]:
    """Its classes by name, and classes made from the JSON files that it has no class for."""
    from kafka.protocol.api_data import ApiData
    from kafka.protocol.api_message import ApiMessage

    found = {}
    for package in PACKAGES:
        module = importlib.import_module(f"kafka.protocol.{package}")
        names = [module.__name__]
        if hasattr(module, "__path__"):
            names += [m.name for m in pkgutil.iter_modules(module.__path__, module.__name__ + ".")]
        for name in names:
            for value in vars(importlib.import_module(name)).values():
                if isinstance(value, type) and issubclass(value, (ApiMessage, ApiData)):
                    found[value.__name__] = value
    for file in resources.files("kafka.protocol.schemas.resources").iterdir():
        name = file.name.removesuffix(".json")
        if name.endswith(("Request", "Response")) and name not in found:
            found[name] = type(ApiMessage)(name, (ApiMessage,), {})
    return found


with warnings.catch_warnings():  # it reads its JSON by a deprecated way
    warnings.simplefilter("ignore", DeprecationWarning)
    THEIRS = _load()
KNOWN = [cls for cls in MESSAGES if cls.__name__ in THEIRS]

RENAMED = {
    "topic_authorized_operations": "authorized_operations",
    "cluster_authorized_operations": "authorized_operations",
}


def common_versions(cls) -> range:
    """Versions that both know; its JSON is that of Kafka 4, without the fields of those that are gone."""
    low, high = THEIRS[cls.__name__].valid_versions
    return range(max(low, cls.VERSIONS.low), min(high, cls.VERSIONS.high) + 1)


def assert_same(ours, theirs, version):
    if isinstance(ours, Struct):
        plan = plan_of(type(ours), version)
        for p in (*plan.plain, *plan.tagged):
            name = p.name if hasattr(theirs, p.name) else RENAMED[p.name]
            value = getattr(theirs, name)
            if value is None and p.field.tag is not None:
                continue  # a tag that was not sent has no default there
            assert_same(getattr(ours, p.name), value, version)
    elif isinstance(ours, list):
        for our, their in zip(ours, theirs, strict=True):
            assert_same(our, their, version)
    elif isinstance(theirs, uuid.UUID):
        assert ours == theirs.bytes
    elif isinstance(theirs, set):
        assert ours & 0xFFFFFFFF == sum(1 << bit for bit in theirs)
    elif theirs is None:
        assert ours in (None, NIL_UUID, -(2**31))
    else:
        assert ours == theirs


def test_many_are_known():
    assert sum(len(common_versions(cls)) for cls in KNOWN) > 400


@pytest.mark.parametrize("cls", KNOWN, ids=case_id)
def test_same_bytes_and_values(cls):
    for version in common_versions(cls):
        for message in samples(cls, version, SAMPLES, tame=True):
            if cls is ApiVersionsResponse:
                message.error_code = 0  # it reads refusals as version 0, as brokers send them
            encoded = message.encode(version)
            theirs = THEIRS[cls.__name__].decode(encoded, version=version, header=False)
            assert_same(message, theirs, version)
            theirs._header = None  # its decoder leaves the attribute out, its encoder reads it
            assert theirs.encode(version=version, header=False) == encoded, version
