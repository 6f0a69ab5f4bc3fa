"""The steps of a page of the manual, as a user follows them: files to write and commands to type, in order."""

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
    """The commands that a user types in a shell."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class PropertiesFile:
    """A properties file; `name` is in its first line, a comment."""

    name: str
    text: str


def steps(page: str, heading: str, places: Mapping[str, str]) -> Iterator[Command | PropertiesFile]:
    """Returns the steps below one heading, up to the next; `places` replace the page's addresses and directories."""
    _, *found = re.split(
        rf"^##+ {re.escape(heading)}$", (DOCS / page).read_text(), flags=re.MULTILINE
    )
    assert len(found) == 1, f"{page} has {len(found)} sections {heading}"
    section = found[0].partition("\n##")[0]
    for place, own in places.items():
        section = section.replace(place, own)
    for kind, text in _BLOCK.findall(section):
        if kind == "properties":
            head, _, body = text.partition("\n")
            yield PropertiesFile(head.removeprefix("# "), body)
        else:
            for line in text.splitlines():
                yield Command(tuple(shlex.split(line, comments=True)))


def blocks(page: str, kind: str = "") -> list[str]:
    """Returns the blocks of a language on a page, in order; those without a language are typed in a shell."""
    return [text for found, text in _BLOCK.findall((DOCS / page).read_text()) if found == kind]


def write_programs(page: str, kind: str, folder: Path, bootstrap: str) -> None:
    """Writes the programs of a language on a page, each to the file that its first line names. `bootstrap` replaces the
    page's address.
    """
    for text in blocks(page, kind):
        name = text.partition("\n")[0].lstrip("#/ ")
        (folder / name).write_text(text.replace("localhost:9092", bootstrap))
