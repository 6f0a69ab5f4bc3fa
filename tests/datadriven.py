"""Transcripts as tests: a command, `----`, and what it must print; steps are separated by empty lines.

    join member=a
    ----
    pending a-1

Set `REWRITE_TRANSCRIPTS=1` to write the real output into the files; the diff is the review. The idea is that of
cockroachdb's `datadriven`, as used by etcd's Raft.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

SEPARATOR = "----"
REWRITE = bool(os.environ.get("REWRITE_TRANSCRIPTS"))

_ARGUMENT = re.compile(r"([\w-]+)(?:=(\([^)]*\)|\S+))?")


class Step(NamedTuple):
    """`source` is the command with its comments, as in the file; `line` is where it begins, from 1."""

    line: int
    source: str
    command: str
    args: Mapping[str, str]
    expected: str


def parse_transcript(text: str) -> Iterator[Step]:
    lines = text.splitlines()
    position = 0
    while position < len(lines):
        start = position
        try:
            position = lines.index(SEPARATOR, start)
        except ValueError:
            rest = [line for line in lines[start:] if line.strip() and not line.startswith("#")]
            assert not rest, f"line {start + 1}: a command without {SEPARATOR}"
            return
        source = lines[start:position]
        command, _, arguments = next(
            line for line in source if line.strip() and not line.startswith("#")
        ).partition(" ")
        output = position + 1
        position = output
        while position < len(lines) and lines[position].strip():
            position += 1
        yield Step(
            start + 1,
            "\n".join(source).strip("\n"),
            command,
            dict(_ARGUMENT.findall(arguments)),
            "\n".join(lines[output:position]),
        )


def check_transcript(path: Path, handle: Callable[[Step], str]) -> None:
    """Gives every step to `handle` and compares, or rewrites; a step that prints nothing prints `ok`."""
    written = []
    for step in parse_transcript(path.read_text()):
        actual = handle(step).rstrip("\n") or "ok"
        if not REWRITE:
            assert actual == step.expected, f"{path}:{step.line}: {step.source}"
        written.append(f"{step.source}\n{SEPARATOR}\n{actual}\n")
    assert written, f"{path} has no steps"
    if REWRITE:
        path.write_text("\n".join(written))
