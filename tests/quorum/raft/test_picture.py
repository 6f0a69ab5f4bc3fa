"""docs/roles.svg shows every change of role that the tables of `roles` allow, and no other."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from quorum.raft.roles import HIGHER_EPOCH, SAME_EPOCH

PICTURE = Path(__file__).parents[3] / "docs" / "roles.svg"


def allowed(table: dict[type, tuple[type, ...]]) -> set[tuple[str, str]]:
    return {(a.__name__, b.__name__) for a, after in table.items() for b in after}


def drawn(epoch: str) -> set[tuple[str, str]]:
    """An arrow from `*` is one from every role."""
    return {
        (role.__name__ if (source := arrow.attrib["data-from"]) == "*" else source, target)
        for arrow in ET.parse(PICTURE).iter()
        if (target := arrow.get("data-to")) and arrow.get("data-epoch", "same") == epoch
        for role in SAME_EPOCH
    }


def test_changes_within_an_epoch():
    assert drawn("same") == {(a, b) for a, b in allowed(SAME_EPOCH) if a != b}


def test_changes_into_a_higher_epoch():
    assert drawn("higher") == allowed(HIGHER_EPOCH)
