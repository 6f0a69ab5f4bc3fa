"""Every declared message and version, for tests that cover them all."""

import importlib
import pkgutil
from collections.abc import Callable

from hypothesis import settings

import trimaran.wire.messages
import trimaran.wire.records
from tests.checks import check_each
from trimaran.wire.schema import Message


def _collect() -> list[type[Message]]:
    found: dict[type[Message], None] = {}
    for package in (trimaran.wire.messages, trimaran.wire.records):
        for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            for value in vars(importlib.import_module(info.name)).values():
                if isinstance(value, type) and issubclass(value, Message) and value is not Message:
                    found[value] = None
    return list(found)


MESSAGES = _collect()
# The settings of a test in which each example covers all messages.
examples_of_all = settings(max_examples=settings().max_examples // 3)


def versions_of(cls: type[Message]) -> range:
    return range(cls.VERSIONS.low, cls.VERSIONS.high + 1)


def telling_versions_of(cls: type[Message]) -> list[int]:
    """Returns the oldest, the first flexible and the newest version: the versions in between differ from these only in
    their fields.
    """
    return sorted(
        {cls.VERSIONS.low, max(cls.VERSIONS.low, cls.FLEXIBLE.low), cls.VERSIONS.high}
        & {*versions_of(cls)}
    )


def check_all(check: Callable[[type[Message], int], None]) -> None:
    """Checks every version of every message, even after one has failed."""
    pairs = [(cls, version) for cls in MESSAGES for version in versions_of(cls)]
    check_each(pairs, lambda pair: check(*pair))
