"""The changelog by release: the section `[Unreleased]` becomes that of a version."""

from __future__ import annotations

import re
from datetime import date

_HEADING = re.compile(r"^## \[(?P<name>[^\]]+)\](?P<rest>.*)$", re.MULTILINE)
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_UNRELEASED = "Unreleased"


class ReleaseRefused(Exception):
    """A release that cannot be made; the text says why and what to do."""


def parse_version(version: str) -> tuple[int, ...]:
    """Returns the numbers of a version such as 0.2.0.

    Raises:
        ReleaseRefused: it is not of that form.
    """
    if found := _VERSION.fullmatch(version):
        return tuple(map(int, found.groups()))
    raise ReleaseRefused(f"{version!r} is not a version: use MAJOR.MINOR.PATCH, such as 0.2.0")


def sections(text: str) -> dict[str, str]:
    """Returns the text below each heading `## [NAME]`, in the order of the file."""
    found = [*_HEADING.finditer(text)]
    ends = [heading.start() for heading in found[1:]] + [len(text)]
    return {
        heading["name"]: text[heading.end() : end].strip()
        for heading, end in zip(found, ends, strict=True)
    }


def cut(text: str, version: str, day: date) -> str:
    """Returns the changelog in which the unreleased changes are those of `version`, released on `day`. The version of
    Apache Kafka in the heading stays with both.

    Raises:
        ReleaseRefused: there are no unreleased changes, or a release is as new as `version`.
    """
    number = parse_version(version)
    released = [name for name in sections(text) if name != _UNRELEASED]
    newest = max(released, key=parse_version, default="")
    if newest and number <= parse_version(newest):
        raise ReleaseRefused(
            f"{version} does not follow {newest}, the newest release in CHANGELOG.md"
        )
    if not sections(text).get(_UNRELEASED):
        raise ReleaseRefused("CHANGELOG.md has no changes below [Unreleased]: describe them first")
    heading = next(found for found in _HEADING.finditer(text) if found["name"] == _UNRELEASED)
    both = f"{heading[0]}\n\n## [{version}] - {day.isoformat()}{heading['rest']}"
    return text[: heading.start()] + both + text[heading.end() :]
