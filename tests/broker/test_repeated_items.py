"""B4: repeated names in a request neither multiply its response nor block the loop: every array of every served request
is filled with the same item, and sent to nodes that have what it names.
"""

from __future__ import annotations

import contextlib
from functools import partial

import pytest
import trio

from tests.badinput.peer import Peer, frame_of
from tests.broker.large_requests import array_paths, legal_count, repeating_request
from tests.broker.real_state import GROUP, TOPIC, TRANSACTION, make_some_of_everything
from tests.broker.repeated_items import EACH, REPEATED
from tests.cluster.in_process import cluster
from tests.slow_steps import no_slow_steps
from trimaran.broker.handlers.registry import broker_registry
from trimaran.quorum.controller.handlers.registry import controller_registry
from trimaran.wire.buffers.response_size import ENCODED_BYTES_MAX

pytestmark = pytest.mark.filterwarnings("ignore")

CALLS_MAX = 120_000
# Counting calls takes time; a later response counts as none.
SECONDS = 120
# Number of repetitions of the item in the array, in small and large requests; `--exhaustive` uses the legal maximum.
FEW, MANY = 2, 4_000
# An error, with its text, for each of a request's partitions.
ITEM_BYTES_MAX = 450
# Allowed difference of whole responses.
WHOLE_BYTES = 4_096
# These requests delete items that other requests name, so they are sent last.
TAKES_AWAY = {"DeleteGroups", "DeleteAcls", "OffsetDelete", "LeaveGroup"}
SETTINGS = {
    "auto.create.topics.enable": "false",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    # Without the topic each request for a state is repeated for half a minute.
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
}
REGISTRIES = {"broker": broker_registry(), "controller": controller_registry()}


def cases(node):
    """Returns each request with each array; requests that delete what others name come last."""
    found = [
        (handled, path)
        for handled in REGISTRIES[node].handled().values()
        for path in array_paths(handled.request, handled.versions.high)
    ]
    return sorted(found, key=lambda case: name_of(case[0]) in TAKES_AWAY)


def name_of(handled):
    return handled.request.__name__.removesuffix("Request")


@pytest.mark.parametrize("node", REGISTRIES)
def test_every_request_with_arrays_defines_repetitions(node):
    assert {name_of(handled) for handled, _ in cases(node)} <= set(REPEATED)


def test_every_row_is_a_served_request():
    served = {name_of(handled) for node in REGISTRIES for handled, _ in cases(node)}
    assert served == set(REPEATED)


@pytest.mark.slow(seconds=10)
@pytest.mark.parametrize("node", REGISTRIES)
async def test_repeated_items_have_the_defined_effect(tmp_path, node, request):
    exhaustive = request.config.getoption("--hypothesis-profile") == "exhaustive"
    async with cluster(tmp_path, **SETTINGS) as running:
        host, _, port = running.bootstrap.rpartition(":")
        broker = (host, int(port))
        await trio.to_thread.run_sync(make_some_of_everything, broker)
        address = broker if node == "broker" else ("127.0.0.1", running.voters[1])
        [one] = running.brokers.values()
        registration = one.parts.metadata.image.cluster.brokers[one.node_id]
        names = NAMES | {"topic_id": one.parts.metadata.image.topics.by_name[TOPIC].id}
        for handled, path in cases(node):
            asking = partial(ask, address, handled, path, names)
            legal = legal_count(handled, partial(repeating, handled, path, names))
            many = legal if exhaustive else min(MANY, legal)
            few_bytes = await trio.to_thread.run_sync(asking, FEW)
            with no_slow_steps(CALLS_MAX):
                size = await trio.to_thread.run_sync(asking, many)
            is_each = REPEATED[name_of(handled)].here == EACH
            allowed = few_bytes + (many * ITEM_BYTES_MAX if is_each else WHOLE_BYTES)
            assert size <= min(allowed, ENCODED_BYTES_MAX), (
                f"{name_of(handled)} {path}: {few_bytes} bytes became {size}"
            )
        now = one.parts.metadata.image.cluster.brokers[one.node_id]
        assert (now.fenced, now.epoch) == (False, registration.epoch)


def repeating(handled, path, names, count):
    return repeating_request(handled.request, handled.versions.high, path, count, names)


def ask(address, handled, path, names, count):
    """Returns the size of the response in bytes."""
    with contextlib.closing(Peer(address)) as peer:
        peer.socket.settimeout(SECONDS)
        peer.try_send(frame_of(repeating(handled, path, names, count), handled.versions.high))
        frame = peer.frame()
        assert frame is not None, f"{handled.request.__name__} {path}: the connection was closed"
        return len(frame)


NAMES = {
    "name": TOPIC,
    "topic": TOPIC,
    "topic_name": TOPIC,
    "resource_name": TOPIC,
    "group_id": GROUP,
    "transactional_id": TRANSACTION,
    "groups": GROUP,
    "group_ids": GROUP,
    "groups_names": GROUP,
    "coordinator_keys": GROUP,
    "transactional_ids": TRANSACTION,
    "configuration_keys": None,
    "resource_type": 2,
    "resource_types": 2,
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}
