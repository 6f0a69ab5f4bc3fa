"""Plurals."""

import pytest

from trimaran.node.words import plural_of


@pytest.mark.parametrize(
    ("noun", "plural"),
    [
        ("record", "records"),
        ("directory", "directories"),
        ("key", "keys"),
        ("batch", "batches"),
        ("epoch", "epochs"),
        ("analysis", "analyses"),
        ("loss", "losses"),
    ],
)
def test_plurals(noun, plural):
    assert plural_of(noun) == plural
