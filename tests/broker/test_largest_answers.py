"""Small requests with large answers do not hold the loop either: everything that a group, or a broker, has."""

from __future__ import annotations

import contextlib

import pytest
import trio

from broker.groups.records import GroupRecord
from tests.badinput.peer import Peer
from tests.broker.test_largest_requests import SETTINGS
from tests.cluster.in_process import cluster
from tests.slow_steps import no_slow_steps
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.messages.list_groups import ListGroupsRequest
from wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from wire.records.groups import OffsetCommitKey, OffsetCommitValue

pytestmark = pytest.mark.slow

MANY = 100_000


def ask(address, request, version):
    peer = Peer(address)
    with contextlib.closing(peer):
        return peer.ask(request, version)


class Asked:
    """One broker with one shard of groups."""

    def __init__(self, running) -> None:
        host, _, port = running.bootstrap.rpartition(":")
        self.address = (host, int(port))
        [broker] = running.brokers.values()
        self.groups = broker.context.groups

    async def __call__(self, request, version):
        return await trio.to_thread.run_sync(ask, self.address, request, version)

    async def loaded(self):
        """The shard, when there is one."""
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        with trio.fail_after(20):
            while (await self(find, 4)).coordinators[0].error_code:
                pass
            while (await self(ListGroupsRequest(), 4)).error_code:
                pass
        [epoch] = self.groups.runtime.epochs
        return epoch.active()


def commit(shard, group: str, index: int) -> None:
    value = OffsetCommitValue(offset=index, metadata="", commit_timestamp=0)
    shard.replay(
        index, GroupRecord(OffsetCommitKey(group=group, topic="t", partition=index), value)
    )


@contextlib.asynccontextmanager
async def asked(tmp_path):
    settings = {**SETTINGS, "offsets.topic.num.partitions": "1"}
    settings["offsets.topic.replication.factor"] = "1"
    async with cluster(tmp_path, **settings) as running:
        yield Asked(running)


async def test_all_groups_of_a_broker(tmp_path):
    async with asked(tmp_path) as ask:
        shard = await ask.loaded()
        for number in range(MANY):
            commit(shard, f"g{number}", number)
        with no_slow_steps():
            answer = await ask(ListGroupsRequest(), 4)
        assert len(answer.groups) == MANY
        with no_slow_steps():
            assert not (await ask(ListGroupsRequest(states_filter=["Stable"]), 4)).groups


@pytest.mark.parametrize("version", [7, 9, 10])
async def test_all_offsets_of_a_group(tmp_path, version):
    async with asked(tmp_path) as ask:
        topic = CreatableTopic(
            name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        await ask(CreateTopicsRequest(topics=[topic]), 7)
        shard = await ask.loaded()
        for number in range(MANY):
            commit(shard, "g", number)
        group = OffsetFetchRequestGroup(group_id="g", topics=None)
        request = (
            OffsetFetchRequest(groups=[group])
            if version >= 8
            else OffsetFetchRequest(group_id="g", topics=None)
        )
        with no_slow_steps():
            answer = await ask(request, version)
        [topic] = (answer.groups[0] if version >= 8 else answer).topics
        assert [one.committed_offset for one in topic.partitions] == list(range(MANY))
