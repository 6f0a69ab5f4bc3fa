"""Numbers with their nouns."""

import pytest

from trimaran.node.text.wording import counted, entity_text, plural_of


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "record", "0 records"),
        (1, "directory", "1 directory"),
        (2, "directory", "2 directories"),
        (3, "key", "3 keys"),
        (2, "retry", "2 retries"),
        (2, "batch", "2 batches"),
        (2, "epoch", "2 epochs"),
        (33, "analysis", "33 analyses"),
        (1_234_567, "partition", "1,234,567 partitions"),
    ],
)
def test_number_and_noun_agree(number, noun, text):
    assert counted(number, noun) == text


@pytest.mark.parametrize(
    ("entity", "text"),
    [
        ({"client-id": "etl", "user": "alice"}, "user=alice client-id=etl"),
        ({"ip": None}, "ip"),
        ({"user": None, "client-id": "etl"}, "user client-id=etl"),
    ],
)
def test_entities_are_written_as_commands_take_them(entity, text):
    assert entity_text(entity) == text


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
def test_noun_has_its_plural(noun, plural):
    assert plural_of(noun) == plural
