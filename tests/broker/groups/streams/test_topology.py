"""The value of a topology, and the topologies that are refused."""

from __future__ import annotations

import pytest

from tests.broker.groups.streams.driver import subtopology, topic, topology
from trimaran.broker.groups.streams import topology as topologies
from trimaran.broker.groups.streams.topology import (
    ENTRY_BYTES,
    SUBTOPOLOGIES_MAX,
    TOPOLOGY_BYTES_MAX,
    TOPOLOGY_ENTRIES_MAX,
    Topology,
    check_topology,
    topology_value,
)
from trimaran.node.text.memory import text_bytes
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.records.streams_groups import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)


def known(*subtopologies, epoch=1):
    return Topology(topology_value(topology(*subtopologies, epoch=epoch)))


def is_refused(given):
    try:
        check_topology(given)
    except KafkaError as error:
        return error.code is ErrorCode.STREAMS_INVALID_TOPOLOGY
    return False


def test_order_of_subtopologies_does_not_matter():
    first, second = subtopology("0", ["a"]), subtopology("1", ["b"])
    assert known(first, second) == known(second, first)
    assert known(first, second) != known(first, second, epoch=2)
    assert known(subtopology("0", ["a", "b"])) != known(subtopology("0", ["b", "a"]))


def test_record_of_topology_has_every_field():
    given = subtopology(
        "0",
        ["a"],
        changelogs=["c"],
        sinks=["s"],
        repartition=[topic("r", 3, 2, k="v")],
        together=[([0], [0])],
    )
    assert topology_value(topology(given, epoch=7)) == StreamsGroupTopologyValue(
        epoch=7,
        subtopologies=[
            Subtopology(
                subtopology_id="0",
                source_topics=["a"],
                source_topic_regex=[],
                state_changelog_topics=[
                    TopicInfo(name="c", partitions=0, replication_factor=0, topic_configs=[])
                ],
                repartition_sink_topics=["s"],
                repartition_source_topics=[
                    TopicInfo(
                        name="r",
                        partitions=3,
                        replication_factor=2,
                        topic_configs=[TopicConfig(key="k", value="v")],
                    )
                ],
                copartition_groups=[
                    CopartitionGroup(
                        source_topics=[0], source_topic_regex=[], repartition_source_topics=[0]
                    )
                ],
            )
        ],
    )


def test_required_topics_include_no_sinks():
    given = known(
        subtopology("0", ["a"], sinks=["s"], changelogs=["c"]),
        subtopology("1", [], repartition=[topic("r")]),
    )
    assert given.required_topics == ("a", "c", "r")
    assert given.subtopology_of_source == {"a": "0", "r": "1"}


@pytest.mark.parametrize(
    "given",
    [
        topology(epoch=-1),
        topology(subtopology("0"), subtopology("0")),
        topology(subtopology("0", [])),
        topology(subtopology("0", repartition=[topic("r", -1)])),
        topology(subtopology("0", together=[([1], [])])),
        topology(subtopology("0", together=[([-1], [])])),
        topology(subtopology("0", together=[([], [0])])),
    ],
)
def test_inconsistent_topology_is_refused(given):
    assert is_refused(given)


@pytest.mark.parametrize(("more", "refused"), [(0, False), (1, True)])
def test_subtopologies_have_a_bound(more, refused):
    given = topology(*(subtopology(str(one)) for one in range(SUBTOPOLOGIES_MAX + more)))
    assert is_refused(given) == refused


@pytest.mark.parametrize(("more", "refused"), [(0, False), (1, True)])
def test_entries_have_a_bound(more, refused):
    half = TOPOLOGY_ENTRIES_MAX // 2
    # The id and the group count too.
    given = topology(subtopology("0", ["a"] * (half + more), together=[([0] * (half - 2), [])]))
    assert is_refused(given) == refused


@pytest.mark.parametrize(("more", "refused"), [(0, False), (1, True)])
def test_bytes_have_a_bound(more, refused):
    left = TOPOLOGY_BYTES_MAX - text_bytes("0") - text_bytes("") - 2 * ENTRY_BYTES
    assert is_refused(topology(subtopology("0", ["t" * (left + more)]))) == refused


FULL = subtopology(
    "00",
    ["aa", "bbb"],
    changelogs=["c1", "c2", "c3"],
    sinks=["s"],
    repartition=[topic("r", 3, 2, key="value"), topic("rr")],
    together=[([0, 1], [0]), ([1], [0, 1, 1])],
)
FULL_TEXTS = ["00", "aa", "bbb", "s", "r", "key", "value", "rr", "c1", "c2", "c3"]
FULL_BYTES = sum(map(text_bytes, FULL_TEXTS)) + ENTRY_BYTES * len(FULL_TEXTS)
# The texts, internal topics once more, and the groups with their indexes.
FULL_ENTRIES = 11 + 5 + (1 + 2 + 1) + (1 + 1 + 3)


@pytest.mark.parametrize(
    ("bound", "exact"), [("TOPOLOGY_BYTES_MAX", FULL_BYTES), ("TOPOLOGY_ENTRIES_MAX", FULL_ENTRIES)]
)
@pytest.mark.parametrize(("less", "refused"), [(0, False), (1, True)])
def test_every_part_counts_towards_a_bound(monkeypatch, bound, exact, less, refused):
    monkeypatch.setattr(topologies, bound, exact - less)
    assert is_refused(topology(FULL)) == refused


def test_size_of_topology_counts_all_names():
    assert known(FULL).bytes == FULL_BYTES


@pytest.mark.parametrize(
    "other",
    [
        [subtopology("0", ["a"]), subtopology("1", ["b"])],
        [subtopology("1", ["a"])],
        [subtopology("0", ["a"], changelogs=["c"])],
        [subtopology("0", ["a"], sinks=["c"])],
        [subtopology("0", ["a"], repartition=[topic("c")])],
        [subtopology("0", ["a"], together=[([0], [])])],
    ],
)
def test_topologies_differ_in_each_part(other):
    one = known(subtopology("0", ["a"]))
    assert one == known(subtopology("0", ["a"]))
    assert (one == known(*other), known(*other) == one) == (False, False)
    assert one != "0"


def test_topologies_differ_in_each_topic_field():
    def of(*topics):
        return known(subtopology("0", [], repartition=topics))

    every = [
        of(topic("r", 1, 2, k="v")), of(topic("s", 1, 2, k="v")), of(topic("r", 3, 2, k="v")),
        of(topic("r", 1, 3, k="v")), of(topic("r", 1, 2, k="w")), of(topic("r", 1, 2, l="v")),
    ]  # fmt: skip
    equal = [[one == other for other in every] for one in every]
    assert equal == [[at == other for other in range(6)] for at in range(6)]
