"""Descriptions of topologies: how they are requested, checked, kept and returned."""

from __future__ import annotations

import pytest

from tests.broker.groups.streams.driver import StreamsDriver, topology
from trimaran.broker.groups.streams import groups
from trimaran.broker.groups.streams.descriptions import (
    DESCRIPTION_BYTES_MAX,
    NODE_BYTES,
    DescriptionStatus,
    check_description_request,
    description_bytes,
)
from trimaran.node.text.memory import text_bytes
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)


def node(name, node_type, **fields):
    defaults = {"source_topics": [], "stores": [], "successors": []}
    return TopologyDescriptionNode(name=name, node_type=node_type, **{**defaults, **fields})


def description(*nodes, stores=()):
    of_nodes = TopologyDescriptionSubtopology(subtopology_id="0", nodes=list(nodes))
    return TopologyDescription(
        subtopologies=[of_nodes],
        global_stores=[
            TopologyDescriptionGlobalStore(source=source, processor=processor)
            for source, processor in stores
        ],
    )


def update(given=None, member_id="a", group_id="g", epoch=1):
    return StreamsGroupTopologyDescriptionUpdateRequest(
        group_id=group_id,
        member_id=member_id,
        topology_epoch=epoch,
        topology_description=given or description(node("s", 1)),
    )


def code_of(call, *args):
    with pytest.raises(KafkaError) as raised:
        call(*args)
    return raised.value.code


@pytest.fixture
def driver():
    driver = StreamsDriver()
    driver.beat("a")
    return driver


def is_asked(driver, member_id="a", **fields):
    epoch = driver.group.members[member_id].epoch
    return driver.beat(member_id, epoch, **fields).response.topology_description_required


def told(driver):
    head, _ = driver.streams.described_with_members("g", with_description=True)
    return head.topology_description_status, head.topology_description


def test_description_is_requested_from_one_member(driver):
    driver = StreamsDriver()
    assert driver.beat("a", version=0).response.topology_description_required is False
    assert driver.beat("b").response.topology_description_required is True
    assert not is_asked(driver, "a")
    driver.advance(29.999)
    assert not is_asked(driver, "a")
    driver.advance(0.001)
    assert is_asked(driver, "a")


def test_member_with_stale_topology_gets_no_request():
    driver = StreamsDriver()
    driver.beat("a", topology=topology(epoch=2), version=0)
    assert driver.beat("b").response.topology_description_required is False
    assert is_asked(driver, "a")


def test_description_is_kept_until_the_group_is_gone(driver):
    before = driver.shard.account.bytes
    assert told(driver) == (DescriptionStatus.NOT_STORED, None)
    given = description(node("s", 1, source_topics=["t"], successors=["p"]), node("p", 2))
    driver.streams.describe_topology(update(given))
    assert told(driver) == (DescriptionStatus.AVAILABLE, given)
    assert driver.shard.account.bytes == before + description_bytes(given)
    driver.advance(31)
    assert not is_asked(driver)
    driver.streams.describe_topology(update())
    assert driver.shard.account.bytes == before + description_bytes(description(node("s", 1)))
    driver.beat("a", -1)
    driver.submit(driver.shard.delete_groups(["g"]))
    assert driver.shard.account.bytes == 0


def test_plain_describe_has_no_description(driver):
    driver.streams.describe_topology(update())
    head, _ = driver.streams.described_with_members("g")
    assert (head.topology_description_status, head.topology_description) == (0, None)


def test_next_coordinator_requests_description_again(driver):
    driver.streams.describe_topology(update())
    later = driver.reloaded()
    assert told(later) == (DescriptionStatus.NOT_STORED, None)
    assert is_asked(later)
    again = driver.reloaded()
    again.streams.describe_topology(update())  # before the first heartbeat
    assert told(again)[0] == DescriptionStatus.AVAILABLE


def test_fields_of_other_node_types_are_dropped(driver):
    every = {
        "source_topics": ["t", "t"],
        "sink_topic": "o",
        "stores": ["x", "x"],
        "successors": ["n", "n"],
    }
    store = (node("gs", 1, **every), node("gp", 2, **every))
    given = description(*(node("n", one, **every) for one in (1, 2, 3)), stores=[store])
    driver.streams.describe_topology(update(given))
    source = {"source_topics": ["t"], "successors": ["n"]}
    processor = {"stores": ["x"], "successors": ["n"]}
    assert told(driver)[1] == description(
        node("n", 1, **source),
        node("n", 2, **processor),
        node("n", 3, sink_topic="o", successors=["n"]),
        stores=[(node("gs", 1, **source), node("gp", 2, **processor))],
    )


@pytest.mark.parametrize(
    "given",
    [
        description(node("n", 0)),
        description(node("n", 4)),
        description(stores=[(node("n", 2), node("m", 2))]),
        description(stores=[(node("n", 1), node("m", 3))]),
    ],
)
def test_wrong_node_is_refused(driver, given):
    assert code_of(driver.streams.describe_topology, update(given)) is ErrorCode.INVALID_REQUEST
    assert told(driver) == (DescriptionStatus.NOT_STORED, None)


def test_only_member_may_describe_the_groups_topology(driver):
    describe = driver.streams.describe_topology
    assert code_of(describe, update(group_id="h")) is ErrorCode.GROUP_ID_NOT_FOUND
    assert code_of(describe, update(member_id="b")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(describe, update(epoch=2)) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("field", ["member_id", "group_id"])
def test_ids_must_not_be_empty(field):
    given = update(**{field: " "})
    assert code_of(check_description_request, given) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("more", [0, 1])
def test_description_has_a_bound(driver, more):
    empty = 2 * NODE_BYTES + text_bytes("0") + text_bytes("")
    given = description(
        node("", 3, sink_topic="t" * (DESCRIPTION_BYTES_MAX - empty - text_bytes("") + more))
    )
    assert description_bytes(given) == DESCRIPTION_BYTES_MAX + more
    if not more:
        driver.streams.describe_topology(update(given))
        return
    code = code_of(driver.streams.describe_topology, update(given))
    assert code is ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED
    driver.advance(31)
    assert not is_asked(driver)  # the next one would be as large


@pytest.mark.parametrize("less", [0, 1])
def test_description_beyond_memory_limit_is_refused(driver, monkeypatch, less):
    driver.streams.describe_topology(update())
    before = driver.shard.account.bytes
    given = description(node("s", 1, source_topics=["t"]), node("longer", 2))
    more = description_bytes(given) - description_bytes(description(node("s", 1)))
    monkeypatch.setattr(groups, "GROUPS_BYTES_MAX", before + more - less)
    if less:
        code = code_of(driver.streams.describe_topology, update(given))
        assert code is ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED
        assert told(driver)[1] == description(node("s", 1))
        assert driver.shard.account.bytes == before
    else:
        driver.streams.describe_topology(update(given))
        assert told(driver)[1] == given
        assert driver.shard.account.bytes == before + more
