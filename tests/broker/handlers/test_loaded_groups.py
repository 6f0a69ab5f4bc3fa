"""Requests for groups whose shard is loading: they wait for it, up to a timeout."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio
from immutables import Map

from tests.broker.groups.rig import Rig, open_rig
from trimaran.broker.groups.coordinator import LOADED_SECONDS_MAX
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.handlers.consumer_group_describe import consumer_group_describe
from trimaran.broker.handlers.consumer_group_heartbeat import consumer_group_heartbeat
from trimaran.broker.handlers.delete_groups import delete_groups
from trimaran.broker.handlers.describe_groups import describe_groups
from trimaran.broker.handlers.join_group import join_group
from trimaran.broker.handlers.leave_group import leave_group
from trimaran.broker.handlers.list_groups import list_groups
from trimaran.broker.handlers.offset_commit import offset_commit
from trimaran.broker.handlers.offset_delete import offset_delete
from trimaran.broker.handlers.offset_fetch import offset_fetch
from trimaran.broker.handlers.sync_group import sync_group
from trimaran.quorum.metadata.features import GROUP_VERSION
from trimaran.quorum.metadata.image import FeaturesImage
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from trimaran.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from trimaran.wire.messages.delete_groups import DeleteGroupsRequest
from trimaran.wire.messages.describe_groups import DescribeGroupsRequest
from trimaran.wire.messages.join_group import JoinGroupRequest
from trimaran.wire.messages.leave_group import LeaveGroupRequest
from trimaran.wire.messages.list_groups import ListGroupsRequest
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from trimaran.wire.messages.offset_delete import OffsetDeleteRequest
from trimaran.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from trimaran.wire.messages.sync_group import SyncGroupRequest

E = ErrorCode

COMMIT = OffsetCommitRequestTopic(
    name="t",
    partitions=[
        OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    ],
)
CHECKER = OffsetFetchRequest(
    group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
)

# A handler, a request to it about group `g`, the version, the place of the error code in its response, and the code
# after the load.
REQUESTS = {
    "offset_fetch": (
        offset_fetch,
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]),
        9,
        lambda answer: answer.groups[0].error_code,
        E.NONE,
    ),
    "offset_fetch of 0.8.2": (
        offset_fetch,
        CHECKER,
        1,
        lambda answer: answer.topics[0].partitions[0].error_code,
        E.NONE,
    ),
    "offset_commit": (
        offset_commit,
        OffsetCommitRequest(
            group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=[COMMIT]
        ),
        8,
        lambda answer: answer.topics[0].partitions[0].error_code,
        E.NONE,
    ),
    "offset_delete": (
        offset_delete,
        OffsetDeleteRequest(group_id="g", topics=[]),
        0,
        lambda answer: answer.error_code,
        E.GROUP_ID_NOT_FOUND,
    ),
    "join_group": (
        join_group,
        JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=[],
        ),
        3,
        lambda answer: answer.error_code,
        E.INCONSISTENT_GROUP_PROTOCOL,
    ),
    "sync_group": (
        sync_group,
        SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=[]),
        3,
        lambda answer: answer.error_code,
        E.UNKNOWN_MEMBER_ID,
    ),
    "leave_group": (
        leave_group,
        LeaveGroupRequest(group_id="g", member_id="m"),
        2,
        lambda answer: answer.error_code,
        E.UNKNOWN_MEMBER_ID,
    ),
    "consumer_group_heartbeat": (
        consumer_group_heartbeat,
        ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1),
        1,
        lambda answer: answer.error_code,
        E.GROUP_ID_NOT_FOUND,
    ),
    "consumer_group_describe": (
        consumer_group_describe,
        ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False),
        1,
        lambda answer: answer.groups[0].error_code,
        E.GROUP_ID_NOT_FOUND,
    ),
    "describe_groups": (
        describe_groups,
        DescribeGroupsRequest(groups=["g"], include_authorized_operations=False),
        6,
        lambda answer: answer.groups[0].error_code,
        E.GROUP_ID_NOT_FOUND,
    ),
    "delete_groups": (
        delete_groups,
        DeleteGroupsRequest(groups_names=["g"]),
        2,
        lambda answer: answer.results[0].error_code,
        E.GROUP_ID_NOT_FOUND,
    ),
    "list_groups": (
        list_groups,
        ListGroupsRequest(states_filter=[], types_filter=[]),
        5,
        lambda answer: answer.error_code,
        E.NONE,
    ),
}


def serving_consumer_groups(rig):
    features = FeaturesImage(levels=Map({GROUP_VERSION: 1}))
    rig.metadata.image = replace(rig.metadata.image, features=features)


async def code_of(rig, name):
    handler, request, version, find, _ = REQUESTS[name]
    return E.of(find(await rig.call(handler, request.replace(), version)))


@pytest.mark.parametrize("name", REQUESTS)
async def test_request_waits_for_group_about_to_load(tmp_path, name):
    async with open_rig(tmp_path) as rig:
        serving_consumer_groups(rig)
        rig.lead(rig.index_of("g"))
        assert await code_of(rig, name) is REQUESTS[name][-1]


async def test_slowly_loading_group_is_refused_after_a_second(tmp_path, autojump_clock):
    rig = Rig(tmp_path, GroupLimits(partition_count=1))  # no shard is ever loaded
    serving_consumer_groups(rig)
    log = rig.lead(0).log

    for name in REQUESTS:
        began = trio.current_time()
        assert await code_of(rig, name) is E.COORDINATOR_LOAD_IN_PROGRESS, name
        assert trio.current_time() - began == pytest.approx(LOADED_SECONDS_MAX), name
    log.close()


async def test_loaded_group_does_not_wait_for_another(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.lead(rig.index_of("g"))
        await rig.loaded(rig.index_of("g"))
        assert not rig.groups.runtime.is_loading
        assert isinstance(rig.start(offset_fetch, CHECKER, 1), bytes | bytearray | memoryview)
