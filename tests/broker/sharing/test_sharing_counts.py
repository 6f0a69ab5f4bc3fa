"""The counts of share groups, and the levels of their feature."""

from __future__ import annotations

import pytest
from immutables import Map

from trimaran.broker.sharing.counts import ShareCounts
from trimaran.broker.sharing.feature import has_dead_letter_queues, has_share_groups
from trimaran.quorum.metadata.features import SHARE_VERSION
from trimaran.quorum.metadata.image import FeaturesImage


def numbers(found):
    return found.letters, found.letter_produces, found.failed_letter_produces


def counted(counts, group_id, *values):
    found = counts.of(group_id)
    found.letters += values[0]
    found.letter_produces += values[1]
    found.failed_letter_produces += values[2]


def test_counts_begin_at_zero():
    counts = ShareCounts()
    assert (counts.evictions, counts.waiting, counts.expired) == (0, 0, 0)
    assert (counts.load_times.count, dict(counts.acknowledgements)) == (0, {})
    assert [numbers(found) for found in counts.everything()] == [(0, 0, 0)]
    assert list(counts.groups()) == []


def test_letters_of_ended_groups_stay_in_the_sum():
    counts = ShareCounts()
    for group_id in ("h", "g", "g"):
        counts.begin(group_id)
    counted(counts, "g", 5, 3, 1)
    counted(counts, "h", 10, 20, 30)
    counted(counts, "unknown", 100, 200, 300)
    counts.begin("g")
    assert [(group_id, numbers(found)) for group_id, found in counts.groups()] == [
        ("g", (5, 3, 1)), ("h", (10, 20, 30))
    ]  # fmt: skip
    for group_id in ("g", "g", "unknown"):
        counts.end(group_id)
    assert [numbers(found) for found in counts.everything()] == [(105, 203, 301), (10, 20, 30)]
    assert numbers(counts.of("g")) == (105, 203, 301)
    assert [group_id for group_id, _ in counts.groups()] == ["h"]


@pytest.mark.parametrize(
    ("level", "groups", "queues"),
    [(None, False, False), (0, False, False), (1, True, False), (2, True, True), (3, True, True)],
)
def test_level_tells_what_is_served(level, groups, queues):
    features = FeaturesImage(levels=Map({} if level is None else {SHARE_VERSION: level}))
    assert (has_share_groups(features), has_dead_letter_queues(features)) == (groups, queues)
