"""Small requests with large responses do not block the loop either: all state of a group, or of a broker."""

from __future__ import annotations

import contextlib

import pytest
import trio

from tests.badinput.peer import Peer
from tests.broker.test_largest_requests import SETTINGS
from tests.cluster.in_process import cluster
from tests.slow_steps import no_slow_steps
from trimaran.broker.groups.records import GroupRecord
from trimaran.wire.buffers.response_size import RESPONSE_BYTES_MAX
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from trimaran.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from trimaran.wire.messages.find_coordinator import FindCoordinatorRequest
from trimaran.wire.messages.list_groups import ListGroupsRequest
from trimaran.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from trimaran.wire.records.groups import OffsetCommitKey, OffsetCommitValue

pytestmark = pytest.mark.slow

MANY = 20_000
CALLS_MAX = MANY * 3 // 2  # detects undivided work of two calls per group or offset
E = ErrorCode


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
        self.node_id = broker.node_id
        self.groups = broker.parts.families.groups

    async def __call__(self, request, version):
        return await trio.to_thread.run_sync(ask, self.address, request, version)

    async def loaded(self):
        """Returns the shard when it is loaded."""
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        with trio.fail_after(60):
            while (await self(find, 4)).coordinators[0].error_code:
                pass
            while (await self(ListGroupsRequest(), 4)).error_code:
                pass
        [epoch] = self.groups.runtime.epochs
        return epoch.active()


def commit(shard, group: str, index: int, metadata: str = "") -> None:
    value = OffsetCommitValue(offset=index, metadata=metadata, commit_timestamp=0)
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
        with no_slow_steps(CALLS_MAX):
            answer = await ask(ListGroupsRequest(), 4)
        assert len(answer.groups) == MANY
        with no_slow_steps(CALLS_MAX):
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
        with no_slow_steps(CALLS_MAX):
            answer = await ask(request, version)
        [topic] = (answer.groups[0] if version >= 8 else answer).topics
        assert [partition.committed_offset for partition in topic.partitions] == list(range(MANY))


@pytest.mark.parametrize("version", [7, 8, 10])
async def test_group_with_too_many_offsets_is_refused(tmp_path, version):
    """Groups before it are answered, and the rest is refused."""
    async with asked(tmp_path) as ask:
        topic = CreatableTopic(
            name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        await ask(CreateTopicsRequest(topics=[topic]), 7)
        shard = await ask.loaded()
        metadata = "m" * 4096
        for number in range(RESPONSE_BYTES_MAX // len(metadata) + 1):
            commit(shard, "large", number, metadata)
        for group in ("first", "last"):
            commit(shard, group, 0)
        names = ("first", "large", "last", "large") if version >= 8 else ("large",)
        groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
        request = (
            OffsetFetchRequest(groups=groups)
            if version >= 8
            else OffsetFetchRequest(group_id="large", topics=None)
        )
        with no_slow_steps():
            answer = await ask(request, version)
        if version < 8:
            assert (answer.error_code, answer.topics) == (E.POLICY_VIOLATION, [])
            return
        assert [
            (group.group_id, group.error_code, len(group.topics)) for group in answer.groups
        ] == [
            ("first", E.NONE, 1),
            ("large", E.POLICY_VIOLATION, 0),
            ("last", E.POLICY_VIOLATION, 0),
        ]
        again = request.replace(groups=groups[2:3])
        [last] = (await ask(again, version)).groups
        assert (last.error_code, len(last.topics)) == (E.NONE, 1)


async def test_offsets_of_many_groups_are_answered(tmp_path):
    """Each of them has few offsets, all together many."""
    async with asked(tmp_path) as ask:
        topic = CreatableTopic(
            name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        await ask(CreateTopicsRequest(topics=[topic]), 7)
        shard = await ask.loaded()
        names = [f"g{number}" for number in range(200)]
        for name in names:
            for number in range(100):
                commit(shard, name, number)
        groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
        with no_slow_steps():
            answer = await ask(OffsetFetchRequest(groups=groups), 9)
        assert [group.group_id for group in answer.groups] == names
        assert {len(group.topics[0].partitions) for group in answer.groups} == {100}


async def test_configs_of_many_groups(tmp_path):
    """Each group name has configs, whether the group exists or not."""
    async with asked(tmp_path) as ask:
        names = [f"{number:x}" for number in range(1_000)]
        resources = [
            DescribeConfigsResource(resource_type=32, resource_name=name, configuration_keys=None)
            for name in names
        ]
        request = DescribeConfigsRequest(
            resources=resources, include_synonyms=True, include_documentation=True
        )
        with no_slow_steps():
            answer = await ask(request, 4)
        assert [result.resource_name for result in answer.results] == names
        assert all(result.configs for result in answer.results)


async def test_broker_config_requested_repeatedly_is_described_once(tmp_path):
    """A request of 16 KiB with the same name used to take nine seconds, and the broker was fenced."""
    async with asked(tmp_path) as ask:
        node = str(ask.node_id)
        one = DescribeConfigsResource(resource_type=4, resource_name=node, configuration_keys=None)
        few = one.replace(configuration_keys=["log.dirs"])
        request = DescribeConfigsRequest(
            resources=[few, *[one] * 1_800], include_synonyms=True, include_documentation=True
        )
        with no_slow_steps():
            [result] = (await ask(request, 4)).results
        assert len(result.configs) > 100
        only = [few, one.replace(configuration_keys=["node.id"]), few]
        [result] = (await ask(request.replace(resources=only), 4)).results
        assert {config.name for config in result.configs} == {"log.dirs", "node.id"}
