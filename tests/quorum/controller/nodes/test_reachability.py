"""Brokers that a controller can reach: the evidence of a refusal, its heartbeat, and the probes of new incarnations."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import trio
import trio.testing
from immutables import Map

from trimaran.quorum.controller.nodes import liveness
from trimaran.quorum.controller.nodes.liveness import ProbeResult
from trimaran.quorum.controller.nodes.reachability import Reachability
from trimaran.quorum.metadata.image import BrokerRegistration, ClusterImage, MetadataImage
from trimaran.wire.text.endpoint import Endpoint

# Written here again, so that a changed number fails a test.
PROBE_AGAIN_SECONDS, PROBES_AT_ONCE = 10.0, 10
A, B = ("10.0.0.1", 9092), ("10.0.0.2", 9092)
ANSWERS = ProbeResult(answered=frozenset({A}))
SILENT = ProbeResult()
DOWN = ProbeResult(refused=frozenset({A, B}), is_down=True)
DOWN_ELSEWHERE = ProbeResult(refused=frozenset({B}), is_down=True)
DOWN_AFTER_ANSWER = ProbeResult(answered=frozenset({A}), refused=frozenset({A}), is_down=True)


def broker(number=1, epoch=5):
    listeners = (Endpoint("L", f"host{number}", 9092),)
    return BrokerRegistration(number, epoch, bytes(16), listeners, fenced=False)


def image_of(*brokers):
    return MetadataImage(cluster=ClusterImage(brokers=Map({item.id: item for item in brokers})))


class Network:
    """The results of probes by host, and the hosts that were probed, with the time."""

    def __init__(self):
        self.results, self.probed, self.seconds = {}, [], 0.0
        self.now = self.most = 0

    async def probe(self, listeners):
        (listener,) = listeners
        self.probed.append((listener.host, trio.current_time()))
        self.now += 1
        self.most = max(self.most, self.now)
        await trio.sleep(self.seconds)
        self.now -= 1
        return self.results.get(listener.host, SILENT)


@pytest.fixture
def network(monkeypatch):
    network = Network()
    monkeypatch.setattr(liveness, "probe", network.probe)
    return network


# -- evidence


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([SILENT], [False]),
        ([ANSWERS], [False]),
        ([DOWN], [False]),
        ([ANSWERS, DOWN], [False, True]),
        ([ANSWERS, SILENT, DOWN], [False, False, True]),
        ([ANSWERS, DOWN_ELSEWHERE], [False, False]),
        ([SILENT, DOWN], [False, False]),
        ([DOWN_AFTER_ANSWER], [True]),
        ([ANSWERS, DOWN, ANSWERS, DOWN], [False, True, False, True]),
    ],
)
async def test_refusal_of_address_that_answered_is_evidence(network, results, expected):
    reachability, found = Reachability(), []
    for result in results:
        network.results["host1"] = result
        found.append(await reachability.has_ended(broker()))
    assert found == expected


async def test_each_incarnation_has_evidence_of_its_own(network):
    reachability = Reachability()
    network.results["host1"] = ANSWERS
    await reachability.has_ended(broker(epoch=5))
    network.results["host1"] = DOWN
    assert not await reachability.has_ended(broker(epoch=6))
    assert not await reachability.has_ended(broker(2))


@pytest.mark.parametrize(
    ("heartbeat", "is_refused", "is_disproved"),
    [
        ((1, 5), True, True),
        ((1, 4), True, False),
        ((1, 6), True, False),
        ((2, 5), True, False),
        ((1, 5), False, False),
    ],
)
async def test_heartbeat_after_refusal_disproves_addresses(
    network, heartbeat, is_refused, is_disproved
):
    """The addresses stay disproved: only the lease decides on that incarnation."""
    reachability = Reachability()
    network.results["host1"] = ANSWERS
    await reachability.has_ended(broker())
    if is_refused:
        network.results["host1"] = DOWN
        await reachability.has_ended(broker())
    reachability.note_heartbeat(*heartbeat)
    network.results["host1"] = DOWN
    assert await reachability.has_ended(broker()) is not is_disproved
    reachability.note_heartbeat(2, 5)
    assert await reachability.has_ended(broker()) is not is_disproved


# -- probes


class Publisher:
    """Publishes images to what runs."""

    def __init__(self, *brokers):
        self.image = image_of(*brokers)
        self.reachability = Reachability()

    def publish(self, *brokers, same=False):
        before = self.image
        self.image = before if same else image_of(*brokers)
        self.reachability.publish(SimpleNamespace(image=before), self.image, None)


def hosts(network):
    probed, network.probed = [host for host, _ in network.probed], []
    return probed


async def test_incarnation_is_probed_until_it_answers(network, nursery, autojump_clock):
    cluster = Publisher(broker(1), broker(2))
    network.results["host1"] = ANSWERS
    nursery.start_soon(cluster.reachability.run, lambda: cluster.image)
    await trio.sleep(PROBE_AGAIN_SECONDS - 0.1)
    assert hosts(network) == []
    await trio.sleep(0.2)
    assert sorted(hosts(network)) == ["host1", "host2"]
    await trio.sleep(PROBE_AGAIN_SECONDS)
    assert hosts(network) == ["host2"]
    network.results["host1"] = DOWN
    assert await cluster.reachability.has_ended(broker(1))


async def test_new_incarnation_is_probed_at_once(network, nursery, autojump_clock):
    cluster = Publisher(broker(1))
    network.results = {"host1": ANSWERS, "host2": ANSWERS}
    nursery.start_soon(cluster.reachability.run, lambda: cluster.image)
    await trio.sleep(0.1)
    cluster.publish(same=True)
    await trio.sleep(0.1)
    assert hosts(network) == []
    cluster.publish(broker(1), broker(2))
    await trio.sleep(0.1)
    assert sorted(hosts(network)) == ["host1", "host2"]
    cluster.publish(broker(1, epoch=6), broker(2))
    await trio.sleep(0.1)
    assert hosts(network) == ["host1"]


async def test_removed_broker_is_forgotten(network, nursery, autojump_clock):
    cluster = Publisher(broker(1), broker(2))
    network.results["host1"] = ANSWERS
    for number in (1, 2):
        await cluster.reachability.has_ended(broker(number))
    cluster.publish(broker(2))
    assert list(cluster.reachability._known) == [2]
    network.results["host1"] = DOWN
    assert not await cluster.reachability.has_ended(broker(1))


async def test_disproved_broker_is_not_probed(network, nursery, autojump_clock):
    cluster = Publisher(broker(1))
    network.results["host1"] = DOWN
    await cluster.reachability.has_ended(broker(1))
    cluster.reachability.note_heartbeat(1, 5)
    hosts(network)
    nursery.start_soon(cluster.reachability.run, lambda: cluster.image)
    await trio.sleep(3 * PROBE_AGAIN_SECONDS)
    assert hosts(network) == []


async def test_few_brokers_are_probed_at_once(network, nursery, autojump_clock):
    cluster = Publisher(*(broker(number) for number in range(2 * PROBES_AT_ONCE + 1)))
    network.seconds = 1.0
    nursery.start_soon(cluster.reachability.run, lambda: cluster.image)
    cluster.reachability._wanted.set()
    await trio.sleep(3.5)
    assert len(hosts(network)) == 2 * PROBES_AT_ONCE + 1
    assert network.most == PROBES_AT_ONCE
