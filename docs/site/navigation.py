"""The order of the manual's pages, which README.md has in the tables of its section "The manual": a heading for each
part, a bold line for each group of a part, and a row for each page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
_LINE = re.compile(r"### (?P<part>.+)|\*\*(?P<group>.+)\*\*|\| \[(?P<page>[\w/]+\.md)\]\(.*")


@dataclass
class Group:
    """Pages below one title; a part without groups has one, with an empty title."""

    title: str
    pages: list[Path] = field(default_factory=list)


@dataclass
class Part:
    """A part of the manual, such as "Reference"."""

    title: str
    groups: list[Group] = field(default_factory=list)

    @property
    def pages(self) -> list[Path]:
        """Returns the part's pages, in order."""
        return [page for group in self.groups for page in group.pages]


def parts(readme: str) -> list[Part]:
    """Returns the parts that a README's section "The manual" lists."""
    found: list[Part] = []
    section = readme.partition("\n## The manual\n")[2].partition("\n## ")[0]
    for line in filter(None, map(_LINE.match, section.splitlines())):
        if line["part"]:
            found.append(Part(line["part"]))
        elif line["group"]:
            found[-1].groups.append(Group(line["group"]))
        else:
            if not found[-1].groups:
                found[-1].groups.append(Group(""))
            found[-1].groups[-1].pages.append(ROOT / line["page"])
    return found
