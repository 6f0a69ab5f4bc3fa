"""Queries to the section that owns a path."""

from tests.zkcompat.build import CLUSTER_ID
from trimaran.zkcompat.sections.registry import SectionIndex, sections_of

_INDEX = SectionIndex(sections_of(CLUSTER_ID, secrets=True))


def same_data(path, expected, found):
    place = _INDEX.entity_at(path)
    return place is not None and place[0].same(path, expected, found)


def is_owned(path):
    """Whether the path may have no other value."""
    place = _INDEX.entity_at(path)
    return place is not None and bool(place[0].directories)


def means_nothing(path, data):
    """Whether a znode may exist although the image does not contain it."""
    place = _INDEX.entity_at(path)
    return place is not None and place[0].spares(path, data)
