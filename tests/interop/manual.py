"""Pages of the manual, read by one who follows them: files to write and commands to type, in their order."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Command:
    """What is typed in a shell."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class PropertiesFile:
    """`name` is what its first line says, a comment."""

    name: str
    text: str


def steps(page: str, heading: str, places: Mapping[str, str]) -> Iterator[Command | PropertiesFile]:
    """Those of one section; `places` are the reader's own for addresses and directories of the page."""
    _, found, section = (DOCS / page).read_text().partition(f"\n## {heading}\n")
    assert found, f"{page} has no section {heading}"
    section = section.partition("\n## ")[0]
    for place, own in places.items():
        section = section.replace(place, own)
    for kind, text in _BLOCK.findall(section):
        if kind == "properties":
            head, _, body = text.partition("\n")
            yield PropertiesFile(head.removeprefix("# "), body)
        else:
            for line in text.splitlines():
                yield Command(tuple(shlex.split(line, comments=True)))
