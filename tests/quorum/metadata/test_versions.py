"""Names of levels of `metadata.version`, as Apache Kafka's tools write them."""

import pytest

from trimaran.quorum.metadata.versions import LATEST, OLDEST, level_of, release_name


def test_every_level_has_its_release_name():
    names = [release_name(level) for level in range(OLDEST, LATEST + 1)]
    assert (names[0], names[10], names[-1]) == ("3.3-IV3", "3.7-IV2", "4.4-IV2")
    assert [level_of(name) for name in names] == list(range(OLDEST, LATEST + 1))
    assert release_name(LATEST + 1) == str(LATEST + 1)


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("3.3", 7),
        ("3.7", 19),
        ("3.9", 21),
        ("4.0.1", 25),
        ("4.3.x", 30),
        ("4.4", 33),
        ("24", 24),
        ("99", 99),
    ],
)
def test_release_maps_to_its_newest_level(text, level):
    assert level_of(text) == level


@pytest.mark.parametrize("text", ["", "3.2", "4.5", "4.4-IV3", "latest", "-1"])
def test_unknown_release_is_refused(text):
    with pytest.raises(ValueError, match=r"is no release from 3\.3-IV3 to 4\.4-IV2"):
        level_of(text)
