"""Topologies for the topics that exist: what Kafka 4.4's `InternalTopicManager` makes of them, and our bound.

`testdata/topologies.jsonl` has topologies with partition counts of topics, and Kafka's tasks, topics to create, and
status.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.broker.groups.driver import FakeTopics
from tests.broker.groups.streams.driver import subtopology, topic, topology
from trimaran.broker.groups.streams.configuring import (
    TASKS_MAX,
    ConfiguredSubtopology,
    ConfiguredTopology,
    GroupProblem,
    InternalTopic,
    Status,
    configured,
)
from trimaran.broker.groups.streams.topology import Topology, topology_value
from trimaran.wire.errors import ErrorCode, KafkaError

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "testdata" / "topologies.jsonl").read_text().splitlines()
]


def known(*subtopologies):
    return Topology(topology_value(topology(*subtopologies)))


def topics(**counts):
    found = FakeTopics(**counts)
    found._counts = counts
    return found


def outcome(case):
    given = known(
        *(
            subtopology(
                one,
                sources,
                changelogs=changelogs,
                sinks=sinks,
                repartition=[topic(name, count) for name, count in repartition],
                together=groups,
            )
            for one, sources, repartition, sinks, changelogs, groups in case["subtopologies"]
        )
    )
    try:
        found = configured(given, topics(**case["existing"]))
    except KafkaError as error:
        is_expected = error.code is ErrorCode.STREAMS_INVALID_TOPOLOGY
        return {"refused": error.message if is_expected else error.code}
    subtopologies, problem = found.subtopologies, found.problem
    # Kafka names missing internal topics in another order.
    is_named = problem is not None and problem.status is not Status.MISSING_INTERNAL_TOPICS
    return {
        "status": None if problem is None else problem.status,
        "detail": problem.detail if is_named else None,
        "tasks": None
        if subtopologies is None
        else {one: each.task_count for one, each in subtopologies.items()},
        "create": {name: each.partitions for name, each in found.missing.items()},
    }


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_configured_topology_is_that_of_kafka(case):
    assert outcome(case) == case["result"]


def test_every_outcome_is_among_the_cases():
    found = {case["result"].get("status", "refused") for case in CASES}
    assert found == {
        None,
        "refused",
        Status.MISSING_SOURCE_TOPICS,
        Status.INCORRECTLY_PARTITIONED_TOPICS,
        Status.MISSING_INTERNAL_TOPICS,
    }


def test_internal_topics_keep_their_configs():
    given = known(
        subtopology("0", sinks=["r"], changelogs=["c"]),
        subtopology("1", [], repartition=[topic("r", 0, 2, retention="1")]),
    )
    r, c = InternalTopic("r", 4, 2, {"retention": "1"}), InternalTopic("c", 4)
    assert configured(given, topics(t=4)) == ConfiguredTopology(
        epoch=1,
        subtopologies={
            "0": ConfiguredSubtopology(4, frozenset({"t"}), {}, frozenset({"r"}), {"c": c}),
            "1": ConfiguredSubtopology(4, frozenset(), {"r": r}, frozenset(), {}),
        },
        missing={"r": r, "c": c},
        problem=GroupProblem(Status.MISSING_INTERNAL_TOPICS, "Internal topics are missing: c, r"),
    )
    assert configured(given, topics(t=4, r=4, c=4)).is_ready


def test_message_names_three_topics():
    given = known(subtopology("0", ["e", "d", "c", "b", "a"]))
    problem = configured(given, topics()).problem
    assert problem.detail == "Source topics a, b, c and 2 additional topics are missing."


@pytest.mark.parametrize(("count", "may_run"), [(TASKS_MAX, True), (TASKS_MAX + 1, False)])
def test_number_of_tasks_has_a_bound(count, may_run):
    given = known(subtopology("0", ["a"]), subtopology("1", ["b"]))
    found = topics(a=1, b=count - 1)
    if may_run:
        assert configured(given, found).is_ready
    else:
        with pytest.raises(KafkaError, match="at most 40000 tasks"):
            configured(given, found)


def test_sources_are_in_order_by_kind():
    internal = {name: InternalTopic(name, 4) for name in ("q", "p")}
    found = ConfiguredSubtopology(4, frozenset("zyx"), internal, frozenset("s"), {})
    assert found.all_sources == ("x", "y", "z", "p", "q")
    assert not found.is_stateful
