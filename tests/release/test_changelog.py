"""Cutting the changelog of a release, without anything else of it."""

from datetime import date
from pathlib import Path

import pytest

from release.changelog import ReleaseRefused, cut, parse_version, sections

DAY = date(2026, 12, 1)
FIRST = """\
# Changelog

Text at its head.

## [Unreleased] (Apache Kafka 4.4)

### Added

- A thing.
"""


def test_cut_moves_changes_below_the_version():
    assert cut(FIRST, "0.2.0", DAY) == FIRST.replace(
        "## [Unreleased] (Apache Kafka 4.4)\n",
        "## [Unreleased] (Apache Kafka 4.4)\n\n## [0.2.0] - 2026-12-01 (Apache Kafka 4.4)\n",
    )


def test_second_cut_keeps_the_first_release():
    text = cut(FIRST, "0.9.0", DAY)
    more = text.replace("Kafka 4.4)\n", "Kafka 4.4)\n\n- Another thing.\n", 1)
    again = sections(cut(more, "0.10.0", DAY))
    assert [*again] == ["Unreleased", "0.10.0", "0.9.0"]
    assert again["Unreleased"] == ""
    assert again["0.10.0"] == "- Another thing."
    assert again["0.9.0"] == "### Added\n\n- A thing."


def test_cut_without_changes_is_refused():
    with pytest.raises(ReleaseRefused, match="no changes below"):
        cut(cut(FIRST, "0.2.0", DAY), "0.3.0", DAY)


@pytest.mark.parametrize("version", ["0.2.0", "0.1.9", "0.1.10"])
def test_cut_below_newest_release_is_refused(version):
    text = cut(FIRST, "0.2.0", DAY).replace("4.4)\n", "4.4)\n\n- More.\n", 1)
    with pytest.raises(ReleaseRefused, match=r"does not follow 0\.2\.0"):
        cut(text, version, DAY)


@pytest.mark.parametrize("version", ["", "1", "1.2", "v1.2.3", "1.2.3rc1", "01.2.3", "1.2.3\n"])
def test_text_that_is_no_version_is_refused(version):
    with pytest.raises(ReleaseRefused, match="use MAJOR"):
        parse_version(version)


def test_changelog_of_project_can_be_cut():
    text = Path(__file__).resolve().parents[2].joinpath("CHANGELOG.md").read_text()
    unreleased = sections(text)["Unreleased"]
    assert sections(cut(text, "99.0.0", DAY))["99.0.0"] == unreleased
