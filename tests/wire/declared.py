"""Every declared message and version, for tests that go through them all."""

import importlib
import pkgutil

import wire.messages
import wire.records
from wire.schema import Message


def _collect() -> list[type[Message]]:
    found: dict[type[Message], None] = {}
    for package in (wire.messages, wire.records):
        for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            for value in vars(importlib.import_module(info.name)).values():
                if isinstance(value, type) and issubclass(value, Message) and value is not Message:
                    found[value] = None
    return list(found)


MESSAGES = _collect()


def versions_of(cls: type[Message]) -> range:
    return range(cls.VERSIONS.low, cls.VERSIONS.high + 1)


def telling_versions_of(cls: type[Message]) -> list[int]:
    """The oldest, the first flexible and the newest: what is between differs from them by fields only."""
    return sorted(
        {cls.VERSIONS.low, max(cls.VERSIONS.low, cls.FLEXIBLE.low), cls.VERSIONS.high}
        & {*versions_of(cls)}
    )


CASES = [(cls, version) for cls in MESSAGES for version in versions_of(cls)]


def case_id(value: object) -> str:
    return value.__name__ if isinstance(value, type) else f"v{value}"
