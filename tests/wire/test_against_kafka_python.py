"""kafka-python, which interprets Kafka's JSON at run time, reads and writes the same bytes for all messages whose JSON
it has.
"""

import importlib
import pkgutil
import uuid
import warnings
from importlib import resources

from tests.checks import check_each
from tests.wire.declared import MESSAGES
from tests.wire.random_messages import plan_of, samples
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.codec.declarations import Struct
from trimaran.wire.messages.api_versions import ApiVersionsResponse

SAMPLES = 3
PACKAGES = ("admin", "consumer", "metadata", "producer", "sasl")


def _load() -> dict[str, type]:
    """Returns kafka-python's classes by name, and classes made from its JSON files without a class."""
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


with warnings.catch_warnings():  # kafka-python loads JSON by a deprecated function
    warnings.simplefilter("ignore", DeprecationWarning)
    THEIRS = _load()
KNOWN = [cls for cls in MESSAGES if cls.__name__ in THEIRS]

RENAMED = {
    "topic_authorized_operations": "authorized_operations",
    "cluster_authorized_operations": "authorized_operations",
    "generation_id_or_member_epoch": "generation_id",  # renamed in Kafka 4.4
}


def common_versions(cls) -> range:
    """Returns the versions that both support; kafka-python's JSON is that of Kafka 4, without fields of removed
    versions.
    """
    low, high = THEIRS[cls.__name__].valid_versions
    return range(max(low, cls.VERSIONS.low), min(high, cls.VERSIONS.high) + 1)


def assert_same(ours, theirs, version):
    if isinstance(ours, Struct):
        plan = plan_of(type(ours), version)
        for p in (*plan.plain, *plan.tagged):
            name = p.name if hasattr(theirs, p.name) else RENAMED[p.name]
            value = getattr(theirs, name)
            if value is None and p.field.tag is not None:
                continue  # kafka-python has no default for a missing tag
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


def test_many_messages_are_compared():
    assert sum(len(common_versions(cls)) for cls in KNOWN) > 400


def test_kafka_python_has_same_bytes_and_values():
    check_each(KNOWN, has_the_same_bytes_and_values)


def has_the_same_bytes_and_values(cls):
    for version in common_versions(cls):
        for message in samples(cls, version, SAMPLES, tame=True):
            if cls is ApiVersionsResponse:
                message.error_code = 0  # kafka-python reads errors so
            encoded = message.encode(version)
            theirs = THEIRS[cls.__name__].decode(encoded, version=version, header=False)
            assert_same(message, theirs, version)
            theirs._header = None  # their decoder omits the attribute that their encoder reads
            assert theirs.encode(version=version, header=False) == encoded, version
