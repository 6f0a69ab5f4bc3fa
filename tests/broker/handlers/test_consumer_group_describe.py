from __future__ import annotations

import pytest

from tests.broker.groups.rig import TOPIC_ID, open_rig
from tests.broker.handlers.test_consumer_group_heartbeat import joining, served
from tests.broker.handlers.test_join_group import request as join_request
from trimaran.broker.handlers.consumer_group_describe import consumer_group_describe
from trimaran.broker.handlers.consumer_group_heartbeat import consumer_group_heartbeat
from trimaran.broker.handlers.delete_groups import delete_groups
from trimaran.broker.handlers.describe_groups import describe_groups
from trimaran.broker.handlers.join_group import join_group
from trimaran.broker.handlers.list_groups import list_groups
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from trimaran.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from trimaran.wire.messages.delete_groups import DeleteGroupsRequest
from trimaran.wire.messages.describe_groups import DescribeGroupsRequest
from trimaran.wire.messages.list_groups import ListGroupsRequest

E = ErrorCode


def describing(*group_ids):
    return ConsumerGroupDescribeRequest(
        group_ids=list(group_ids), include_authorized_operations=False
    )


@pytest.mark.parametrize("version", range(2))
async def test_every_version_describes_the_group(tmp_path, autojump_clock, version):
    async with open_rig(tmp_path) as rig:
        served(rig)
        (group,) = (await rig.call(consumer_group_describe, describing("g"), version)).groups
        assert group.error_code == E.NOT_COORDINATOR
        await rig.leading()
        (group,) = (await rig.call(consumer_group_describe, describing("g"), version)).groups
        assert (group.error_code, group.error_message) == (
            E.GROUP_ID_NOT_FOUND,
            "Group g not found.",
        )
        rig.connect_from("::1")
        await rig.call(consumer_group_heartbeat, joining(rack_id="r"), 1)
        (group,) = (await rig.call(consumer_group_describe, describing("g"), version)).groups
        assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 2, 2)
        assert group.assignor_name == "uniform"
        (member,) = group.members
        assert (member.member_id, member.member_epoch, member.rack_id) == ("m", 2, "r")
        assert member.client_host == "/0:0:0:0:0:0:0:1"
        assert member.subscribed_topic_names == ["t"]
        for assignment in (member.assignment, member.target_assignment):
            (topic,) = assignment.topic_partitions
            assert (topic.topic_id, topic.topic_name) == (TOPIC_ID, "t")
            assert topic.partitions == [0, 1, 2, 3]
        assert member.member_type == (1 if version else -1)


async def test_other_requests_report_the_groups_kind(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        served(rig)
        await rig.leading()
        await rig.call(consumer_group_heartbeat, joining(), 1)
        (old,) = (await rig.call(describe_groups, DescribeGroupsRequest(groups=["g"]), 6)).groups
        assert (old.error_code, old.group_state) == (E.GROUP_ID_NOT_FOUND, "Dead")
        assert old.error_message == "Group g is not a classic group."
        for types, found in ((["consumer"], ["g"]), (["classic"], []), ([], ["g"])):
            request = ListGroupsRequest(states_filter=["stable"], types_filter=types)
            listed = (await rig.call(list_groups, request, 5)).groups
            assert [(group.group_id) for group in listed] == found
            assert all(group.group_type == "consumer" for group in listed)
        (code,) = await deleted(rig)
        assert code == E.NON_EMPTY_GROUP
        left = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-1)
        await rig.call(consumer_group_heartbeat, left, 1)
        (code,) = await deleted(rig)
        assert code == E.NONE
        assert not rig.epoch(rig.index_of("g")).active().store.knows("g")


async def deleted(rig):
    answer = await rig.call(delete_groups, DeleteGroupsRequest(groups_names=["g"]), 2)
    return [result.error_code for result in answer.results]


async def test_classic_group_is_not_found(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        served(rig)
        await rig.leading()
        await rig.call(join_group, join_request(), 3)
        (group,) = (await rig.call(consumer_group_describe, describing("g"), 1)).groups
        assert group.error_code == E.GROUP_ID_NOT_FOUND
        assert group.error_message == "Group g is not a consumer group."
