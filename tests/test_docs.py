"""The manual: its lines and sentences are short, its links have targets, and the files and invariants that it names
exist.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.site.navigation import parts

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LINE_CHARACTERS_MAX = 120
SENTENCE_WORDS_MAX = 30
CELL_CHARACTERS_MAX = 120
PACKAGES = ("wire", "log", "node", "quorum", "broker", "zkcompat", "spark", "trimaran", "bench")
INVARIANT = re.compile(r"(?<![\w.])(?:[RPITGCSBL]\d{1,2}|m[A-Z]\d{1,2})(?![\w.])")

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def prose(text: str) -> Iterator[str]:
    """Yields lines outside of code blocks and tables."""
    in_code = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and not line.startswith("|"):
            yield line


def sentences(text: str) -> Iterator[str]:
    """Yields the sentences of every paragraph and list item; code in backticks is one word, a link is its text."""
    for paragraph in re.split(r"\n(?=\s*(?:[-*#!]|\d+\.) )|\n\s*\n", "\n".join(prose(text))):
        plain = re.sub(r"`[^`]*`", "code", re.sub(r"\]\([^)]*\)", "]", paragraph))
        yield from re.split(r"[.?!:][)*\"]*(?:\s|$)", plain)


def anchors(text: str) -> set[str]:
    """Returns anchors as GitHub derives them from headings."""
    titles = re.findall(r"^#+ (.*)$", "\n".join(prose(text)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pages
def test_lines_are_short(page: Path):
    lines = prose(page.read_text())
    too_long = [
        line for line in lines if len(re.sub(r"\]\([^)]*\)", "]", line)) > LINE_CHARACTERS_MAX
    ]
    assert too_long == []


@pages
def test_sentences_are_short(page: Path):
    too_long = [s for s in sentences(page.read_text()) if len(s.split()) > SENTENCE_WORDS_MAX]
    assert too_long == []


@pages
def test_cells_of_tables_are_short(page: Path):
    rows = [line for line in page.read_text().splitlines() if line.startswith("|")]
    cells = [cell.strip() for row in rows for cell in row.strip("|").split("|")]
    assert [cell for cell in cells if len(cell) > CELL_CHARACTERS_MAX] == []


def test_long_sentence_is_detected():
    words = " ".join(["word"] * 21)
    (one, two) = [
        s
        for s in sentences(f"# Title\n\n- {words}\n  {words}. Short.\n")
        if "word" in s or "Short" in s
    ]
    assert len(one.split()) == 43  # the hyphen counts as a word
    assert two == "Short"


@pages
def test_links_lead_somewhere(page: Path):
    broken = []
    text = re.sub(r"(?s)```.*?```|`[^`\n]+`", "", page.read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name) if name else page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text())):
            broken.append(target)
    assert broken == []


@pages
def test_files_that_are_named_exist(page: Path):
    folders = "|".join((*PACKAGES, "tests", "docs"))
    named = re.findall(rf"`((?:{folders})/[\w/.*]+)`", page.read_text())
    named = [
        name for name in named if not re.search(r"/[A-Z]+\.py$", name)
    ]  # `NAME.py` means any file
    assert [name for name in named if not any(ROOT.glob(name.rstrip("/")))] == []


def test_every_page_is_in_one_part():
    listed = [page for part in parts((ROOT / "README.md").read_text()) for page in part.pages]
    assert sorted(listed) == sorted(page for page in PAGES if page.name != "README.md")


def test_manual_has_four_parts_with_pages():
    found = parts((ROOT / "README.md").read_text())
    titles = ["Start", "How do I", "Understand", "Reference"]
    assert [part.title for part in found if part.pages] == titles


def test_pages_below_bold_line_are_a_group():
    row = "| [docs/{0}.md](docs/{0}.md) | text |\n"
    tables = row.format("a"), f"\n**Run it**\n\n{row.format('b')}{row.format('c')}"
    (part,) = parts(
        f"\n## The manual\n\n### Use\n\n{''.join(tables)}\n## Status\n{row.format('d')}"
    )
    groups = [(group.title, [page.stem for page in group.pages]) for group in part.groups]
    assert groups == [("", ["a"]), ("Run it", ["b", "c"])]


def labels(path: Path) -> Iterator[str]:
    """Returns the ids in comments, docstrings and messages of a file."""
    text = path.read_text()
    if not INVARIANT.search(text):
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or "STRING" in tokenize.tok_name[token.type]:
            yield from INVARIANT.findall(token.string)


@pytest.mark.slow
def test_every_named_invariant_is_listed():
    page = (ROOT / "docs" / "invariants.md").read_text()
    listed = set(re.findall(r"^\| ([A-Zm]\w+) \|", page, re.MULTILINE))
    assert len(listed) > 50
    named = {
        label
        for folder in (*PACKAGES, "tests")
        for path in (ROOT / folder).rglob("*.py")
        for label in labels(path)
    }
    assert named - listed == set()
