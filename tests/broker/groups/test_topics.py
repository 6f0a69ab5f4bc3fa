"""The metadata's topics as groups see them, always the newest version."""

from __future__ import annotations

from tests.broker.groups.rig import cluster_image, topic_image
from tests.quorum.config_of import config_of
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.topics import newest_topics

T, U = b"t" * 16, b"u" * 16


def test_topics_are_those_of_the_newest_image():
    image = cluster_image(topic_image("t", T, 4))
    topics = newest_topics(lambda: image)
    first = topics()
    assert topics() is first
    assert (first.find("t").id, first.find("t").partition_count, len(first)) == (T, 4, 1)
    assert (first.name_of(T), first.name_of(U), first.find("u")) == ("t", None, None)
    assert list(first.names()) == ["t"]
    image = cluster_image(topic_image("t", T, 4), topic_image("u", U, 1))
    second = topics()
    assert second is not first
    assert second.version is not first.version
    assert (second.find("u").id, second.name_of(U), len(second)) == (U, "u", 2)
    assert topics() is second


def test_the_defaults_are_those_of_the_keys():
    assert GroupLimits.of(config_of()) == GroupLimits()
