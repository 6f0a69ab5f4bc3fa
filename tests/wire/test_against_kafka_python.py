"""kafka-python, which reads Kafka's JSON at run time, reads and writes the same bytes."""

import importlib
import pkgutil
import uuid
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.declared import MESSAGES, case_id, versions_of
from tests.wire.random_messages import random_message
from wire.codec.plan import plan_struct
from wire.messages.api_versions import ApiVersionsResponse
from wire.primitives import NIL_UUID
from wire.schema import Struct


def _load() -> dict[str, type]:
    from kafka.protocol.api_message import ApiMessage

    found = {}
    for package in ("admin", "consumer", "metadata", "producer", "sasl"):
        module = importlib.import_module(f"kafka.protocol.{package}")
        names = [module.__name__]
        if hasattr(module, "__path__"):
            names += [m.name for m in pkgutil.iter_modules(module.__path__, module.__name__ + ".")]
        for name in names:
            for value in vars(importlib.import_module(name)).values():
                if isinstance(value, type) and issubclass(value, ApiMessage):
                    found[value.__name__] = value
    return found


with warnings.catch_warnings():  # it reads its JSON by a deprecated way
    warnings.simplefilter("ignore", DeprecationWarning)
    THEIRS = _load()
KNOWN = {
    cls: [v for v in versions_of(cls) if v <= THEIRS[cls.__name__].max_version]
    for cls in MESSAGES
    if cls.__name__ in THEIRS
}

RENAMED = {
    "topic_authorized_operations": "authorized_operations",
    "cluster_authorized_operations": "authorized_operations",
}


def name_of(name: str, theirs: object) -> str:
    renamed = RENAMED.get(name, name)
    return renamed if hasattr(theirs, renamed) else name


def assert_same(ours, theirs, version):
    if isinstance(ours, Struct):
        plan = plan_struct(type(ours), version)
        for p in (*plan.plain, *plan.tagged):
            value = getattr(theirs, name_of(p.name, theirs))
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
    assert sum(map(len, KNOWN.values())) > 400


@pytest.mark.parametrize("cls", KNOWN, ids=case_id)
@given(seed=st.integers(0, 2**32 - 1))
def test_same_bytes_and_values(cls, seed):
    for version in KNOWN[cls]:
        check_version(cls, version, seed)


def check_version(cls, version, seed):
    message = random_message(cls, version, seed, tame=True)
    if cls is ApiVersionsResponse:
        message.error_code = 0  # it reads refusals as version 0, which the broker then sends
    encoded = message.encode(version)
    theirs = THEIRS[cls.__name__].decode(encoded, version=version)
    assert_same(message, theirs, version)
    theirs._header = None  # its decoder leaves the attribute out, its encoder reads it
    assert theirs.encode(version=version) == encoded
