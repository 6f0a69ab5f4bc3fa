"""The ports that a node must not reach."""

from pathlib import Path

import pytest

from trimaran.errors.user_error import UserError
from trimaran.local.layout import plan_cluster
from trimaran.local.links import Links, parted
from trimaran.wire.transport.endpoint import links as obeyed


@pytest.fixture
def nodes():
    ports = iter(range(1000, 1100))
    plan = plan_cluster(
        Path("data"), "id", controllers=2, brokers=2, zookeeper=True, ports=ports, settings={}
    )
    return {node.name: node for node in plan.nodes}


def cut_of(links, node, monkeypatch):
    """Returns the ports that the forked node cannot reach."""
    monkeypatch.setattr(obeyed, "_cut_ports", None)
    links.obeyed(node, lambda on_ready: on_ready())(lambda: None)
    return {port for port in range(obeyed.PORTS) if obeyed.is_cut(port)}


def test_links_are_cut_only_between_sides(nodes, monkeypatch):
    links = Links()
    one, two, b11, b12 = (nodes[name] for name in nodes if name[-1].isdigit())
    assert links.cut([[one, b11], [two, b12], [nodes["mirror"]]]) == 8
    assert cut_of(links, one, monkeypatch) == {two.port, b12.port}
    assert cut_of(links, b12, monkeypatch) == {one.port, b11.port}
    assert cut_of(links, nodes["mirror"], monkeypatch) == {
        one.port,
        two.port,
        b11.port,
        b12.port,
    }
    links.heal()
    assert cut_of(links, one, monkeypatch) == set()


def test_further_cut_adds_to_earlier_ones(nodes, monkeypatch):
    links = Links()
    links.cut([[nodes["controller-1"]], [nodes["controller-2"]]])
    links.cut([[nodes["controller-1"]], [nodes["broker-11"]]])
    cut = cut_of(links, nodes["controller-1"], monkeypatch)
    assert cut == {nodes["controller-2"].port, nodes["broker-11"].port}


def test_impossible_cut_is_refused(nodes, monkeypatch):
    links = Links()
    one = nodes["controller-1"]
    for sides, why in (
        ([[one]], "fewer than two groups"),
        ([[one], []], "fewer than two groups"),
        ([[one], [nodes["broker-11"], one]], "in two groups"),
        ([[one], [nodes["zookeeper"]]], "links of zookeeper"),
    ):
        with pytest.raises(UserError, match=why):
            links.cut(sides)
        with pytest.raises(UserError, match=why):
            parted(sides)
    assert cut_of(links, one, monkeypatch) == set()
