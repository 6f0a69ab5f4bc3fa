"""The programs that a page names: verbs of `./dev`, benches, `python -m …`, and the commands of `trimaran`.

A program is named by its words without the values that a user chooses: `dev bench quotas`, `dev simulate --mutants
--partitions`, `bench.micro_log`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from bench.__main__ import OWN_TABLES
from bench.benches import BENCHES, IN_TURNS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BENCH_NAMES = (*BENCHES, *IN_TURNS, *OWN_TABLES)
# Words after a verb that select another program; all others are options of the same program.
WAYS = {
    "test": ("--exhaustive",),
    "simulate": ("--mutants", "--model", "--partitions", "--coordinators", "--seed"),
    "chaos": ("--transactions", "--shares", "--mirror"),
}
_DEV = re.compile(r"\./dev ([a-z]+)([^`|#;&\n]*)")
_MODULE = re.compile(r"python -m ([\w.]+)")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def programs(text: str) -> set[str]:
    """Returns the programs that a text names."""
    return set(_MODULE.findall(text)).union(*map(_of_dev, _DEV.findall(text)))


def _of_dev(found: tuple[str, str]) -> set[str]:
    verb, rest = found
    words = re.findall(r"[\w-]+", rest)
    if verb == "bench":
        return {f"dev bench {word}" for word in words if word in BENCH_NAMES}
    ways = [way for way in WAYS.get(verb, ()) if way in words]
    return {" ".join(("dev", verb, *ways))}


def commands(page: str) -> Iterator[list[str]]:
    """Yields the words of each `trimaran` that is typed in a block of a page."""
    for kind, block in _BLOCK.findall(page):
        if kind not in ("", "sh", "console"):
            continue
        text = re.sub(r"\$\([^)]*\)", "GIVEN", block.replace("\\\n", " "))
        for words in _lines_of_shell(text):
            while words and re.match(r"\w+=|sudo$|-u$|\$$", words[0]):
                words = words[2:] if words[0] == "-u" else words[1:]
            if words[:1] == ["trimaran"]:
                yield words[1:]


def _lines_of_shell(text: str) -> Iterator[list[str]]:
    """Yields the words of each command in pipes and lists, without redirections."""
    open_line = ""
    for line in text.splitlines():
        open_line += line
        try:
            tokens = iter(list(_lexer(open_line)))
        except ValueError:  # a quotation continues on the next line
            open_line += "\n"
            continue
        open_line, words = "", []
        for token in tokens:
            if set(token) <= set("<>"):
                next(tokens)
            elif set(token) <= set("|&;"):
                yield words
                words = []
            else:
                words.append(token)
        yield words


def _lexer(line: str) -> shlex.shlex:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    return lexer
