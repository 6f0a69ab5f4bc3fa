"""The project's English: patterns that docstrings, comments, names of tests and pages of the manual avoid."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.source_files import SourceFile, parsed, source_file

TEST_NAME_WORDS_MAX = 8
# The pattern of each fault within one sentence, by the advice that is printed.
FAULTS = {
    "name the subject, instead of a free who or whoever": re.compile(
        r"(^|[.;:,(] )((but|and|so|or|for|to|of|by|from|than) )?[Ww]ho(ever|m|se)? \w"
    ),
    "begin with a verb or with the subject": re.compile(r"(^|[.;:] )(What|Whose|Of) \w"),
    "name the client, the caller, the operator …": re.compile(
        r"\b(some|no|any|every)body\b", re.IGNORECASE
    ),
    "a condition begins with if": re.compile(
        r"(^|[.;:,] )[Ww]here (it|there|this|that|an?|the|no|any|one|they|all)\b"
    ),
    "say this many, this long, this much": re.compile(r"\bso (many|long|much) (?!as|that)\w"),
    "a program receives, returns, reports or refuses": re.compile(
        r"\b(is|are|was|were) (told|asked|heard|looked at)\b"
    ),
    "use the literal verb": re.compile(r"\b(stands (in|for|at|on|as)|hangs? on|goes by)\b"),
    "use the current word: again, up to, newest, earlier, except": re.compile(
        r"\b(anew|upto|of now|of before|ever more|but for|nothing but)\b"
    ),
    "write Not implemented, or See": re.compile(r"\bLeft out:"),
    "write a whole sentence": re.compile(
        r"^(Of|For|Until|While|Where) (?!.*\bsee\b)[^.,]{3,60}\.$"
    ),
}
# Even in a raw string, a quote after a backslash does not end the string.
_STRING_OR_COMMENT = re.compile(
    r'''"""(?:\\.|[^\\])*?"""|"(?:\\.|[^"\\\n])*"'''
    r"""|'''(?:\\.|[^\\])*?'''|'(?:\\.|[^'\\\n])*'|(?P<comment>\#[^\n]*)""",
    re.DOTALL,
)
_SENTENCE_END = re.compile(r"(?<=[.;:!?])\s+")
_CODE = re.compile(r"`[^`]*`")
_BLOCK = re.compile(r"\s*([-*>|#]|\d+\.)\s+")
_NO_PROSE = ("#!", "# type", "# noqa", "# cython", "# fmt")
_QUESTION = re.compile(r"test_(who|what|whose|where|of)_")


def _texts(source: str, file: SourceFile) -> Iterator[tuple[int, str]]:
    """Yields the docstrings of a file, and its comments, each with its first line."""
    yield from file.docstrings
    first, last, words = 0, 0, ""
    for line, alone, text in _comments(source):
        if words and alone and line == last + 1:
            words += f" {text.lstrip('# ')}"
        else:
            if words:
                yield first, words
            first, words = line, text.lstrip("# ")
        last = line if alone else 0
    if words:
        yield first, words


def _comments(source: str) -> Iterator[tuple[int, bool, str]]:
    """Yields line and text of each comment of prose, and whether nothing precedes it in its line."""
    line, counted = 1, 0
    for found in _STRING_OR_COMMENT.finditer(source):
        text = found["comment"]
        if text is None or text.startswith(_NO_PROSE):
            continue
        line += source.count("\n", counted, found.start())
        counted = found.start()
        before = source[source.rfind("\n", 0, counted) + 1 : counted]
        yield line, not before.strip(), text


def faults(source: str) -> Iterator[str]:
    """Yields `line: advice: sentence` for each sentence of a Python file with a fault."""
    return _faults_of(_texts(source, parsed(source)))


def markdown_faults(page: str) -> Iterator[str]:
    """Yields `line: advice: sentence` for each sentence of a page with a fault, except in tables and code."""
    return _faults_of(_paragraphs(page))


def comment_faults(text: str, *markers: str) -> Iterator[str]:
    """Yields `line: advice: sentence` for each fault in lines that begin with one of the markers. Consecutive lines are
    one text.
    """
    return _faults_of(_marked(text, markers))


def _marked(text: str, markers: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    first, words = 0, ""
    for number, line in enumerate([*text.splitlines(), ""], 1):
        stripped = line.strip()
        if stripped.startswith(markers):
            first = first if words else number
            words = f"{words} {stripped.lstrip('#/* ')}".strip()
        elif words:
            yield first, words
            words = ""


def _paragraphs(page: str) -> Iterator[tuple[int, str]]:
    first, words, is_code = 0, "", False
    for number, line in enumerate([*page.splitlines(), ""], 1):
        is_fence = line.lstrip().startswith("```")
        is_code ^= is_fence
        begins = not line.strip() or is_fence or _BLOCK.match(line)
        if words and (begins or is_code):
            yield first, words
            words = ""
        if not is_code and not is_fence and not line.startswith(("#", "|")):
            first = first if words else number
            words = f"{words} {_BLOCK.sub('', line).strip()}".strip()


def _faults_of(texts: Iterable[tuple[int, str]]) -> Iterator[str]:
    for line, text in texts:
        for sentence in _SENTENCE_END.split(_CODE.sub("`…`", " ".join(text.split()))):
            for advice, pattern in FAULTS.items():
                if pattern.search(sentence):
                    yield f"{line}: {advice}: {sentence}"


def bad_test_names(file: SourceFile) -> Iterator[str]:
    """Yields names of tests that are questions, or too long: a name states subject, condition and outcome."""
    for name, _ in file.functions:
        words = name.split("_")
        if words[0] == "test" and (len(words) - 1 > TEST_NAME_WORDS_MAX or _QUESTION.match(name)):
            yield name


def check(path: Path) -> list[str]:
    """Returns the faults of one file."""
    file = source_file(path)
    names = bad_test_names(file) if path.name.startswith("test_") else ()
    return [*_faults_of(_texts(path.read_text(), file)), *names]
