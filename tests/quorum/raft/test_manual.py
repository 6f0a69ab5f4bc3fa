"""Claims of docs/raft.md about this package: the picture of roles, and every function, test and transcript that it
names.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from trimaran.quorum.raft.roles import HIGHER_EPOCH, SAME_EPOCH

ROOT = Path(__file__).parents[3]
RAFT = ROOT / "quorum" / "raft"
MANUAL = (ROOT / "docs" / "raft.md").read_text()
TABLE = MANUAL.partition("## KIP-595, line by line")[2].partition("\n## ")[0]


def allowed(table: dict[type, tuple[type, ...]]) -> set[tuple[str, str]]:
    return {(a.__name__, b.__name__) for a, after in table.items() for b in after}


def drawn(epoch: str) -> set[tuple[str, str]]:
    """Returns the arrows; one from `*` counts from every role."""
    return {
        (role.__name__ if (source := arrow.attrib["data-from"]) == "*" else source, target)
        for arrow in ET.parse(ROOT / "docs" / "roles.svg").iter()
        if (target := arrow.get("data-to")) and arrow.get("data-epoch", "same") == epoch
        for role in SAME_EPOCH
    }


def test_picture_shows_every_change_within_an_epoch():
    assert drawn("same") == {(a, b) for a, b in allowed(SAME_EPOCH) if a != b}


def test_picture_shows_every_change_to_higher_epochs():
    assert drawn("higher") == allowed(HIGHER_EPOCH)


def test_named_functions_exist():
    modules = "|".join(path.stem for path in RAFT.glob("*.py"))
    named = re.findall(rf"`({modules})\.(\w+)`", TABLE)
    assert len(named) > 20
    for module, function in named:
        source = (RAFT / f"{module}.py").read_text()
        assert re.search(rf"(def|class) {function}\b", source), (module, function)


def test_named_tests_exist():
    here = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", TABLE)
    assert len(named) > 20
    assert [name for name in named if f"def {name}(" not in here] == []


def test_named_files_exist():
    testdata = Path(__file__).parent / "testdata"
    named = re.findall(r"\b(\w+\.txt)\b", TABLE)
    assert len(named) > 5
    assert [name for name in named if not (testdata / name).exists()] == []
