"""docs/stories.md lists in which order requests call the product's functions (`REWRITE_TRANSCRIPTS=1` writes it)."""

import os
import re
from pathlib import Path

import pytest

from bench.stories import ROWS_MAX, stories
from trimaran.log.durability.syncing import Fdatasyncs

PAGE = Path(__file__).resolve().parent.parent / "docs" / "stories.md"
# Functions of timers, which sometimes run during a request.
UNTOLD_MAX = 2
HEAD = """# Stories of requests

Each story is one request on nodes in one process. A row is a public function at its first call from another folder.
Infrastructure is omitted: buffers, codecs, turns of the loop, and checks of the request (`bench/stories.py`).
Records are flushed before the response to the Produce, and its rows go on to the system call.
This page is written from such a run: `REWRITE_TRANSCRIPTS=1 pytest tests/test_stories.py`.
[architecture.md](architecture.md) describes the same in words.
"""


def page_of(told):
    parts = [HEAD]
    for title, rows in told.items():
        lines = [
            f"| {number} | `{name}` | `{place}` | {text} |"
            for number, (place, name, text) in enumerate(rows, 1)
        ]
        parts.append(
            "\n".join([f"## {title}\n", "| | function | file | |", "|---|---|---|---|", *lines, ""])
        )
    return "\n".join(parts)


def told_by(page):
    """Returns the rows of each story of the page by its title."""
    found = {}
    for part in page.split("\n## ")[1:]:
        rows = re.findall(r"^\| \d+ \| `(.*?)` \| `(.*?)` \| (.*) \|$", part, re.MULTILINE)
        found[part.partition("\n")[0]] = [(place, name, text) for name, place, text in rows]
    return found


@pytest.mark.slow(seconds=15)
def test_requests_enter_functions_in_order_of_page():
    try:
        Fdatasyncs()
    except OSError as error:
        pytest.skip(f"this machine has no asynchronous fdatasync: {error}")
    seen = stories()
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        PAGE.write_text(page_of(seen))
    page = PAGE.read_text()
    told = told_by(page)
    assert page == page_of(told)
    assert told.keys() == seen.keys()
    for title, rows in told.items():
        order = [row for row in seen[title] if row in rows]
        assert order == rows, title
        untold = [row for row in seen[title] if row not in rows]
        assert len(untold) <= UNTOLD_MAX, (title, untold)
        assert 9 <= len(rows) <= ROWS_MAX, title
