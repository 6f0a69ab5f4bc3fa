from __future__ import annotations

from threading import get_ident

import pytest
import trio

from tests.broker.groups.rig import TOPIC_ID, open_rig
from tests.broker.handlers.test_heartbeat import request as classic_request
from tests.broker.handlers.test_join_group import request as join_request
from tests.broker.handlers.test_topic_access import authorizer
from trimaran.broker.groups.consumer.settings import MEMBER_ID_CHARACTERS_MAX
from trimaran.broker.handlers.consumer_group_heartbeat import consumer_group_heartbeat
from trimaran.broker.handlers.heartbeat import heartbeat
from trimaran.broker.handlers.join_group import join_group
from trimaran.broker.handlers.offset_fetch import offset_fetch
from trimaran.broker.metadata import topic_patterns
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from trimaran.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from trimaran.wire.transport.scheduling.events import yield_to_loop

E = ErrorCode


def served(rig, level=1):
    rig.finalize(group_version=level)


def joining(member_id="m", **changes):
    fields = {
        "group_id": "g",
        "member_id": member_id,
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    return ConsumerGroupHeartbeatRequest(**{**fields, **changes})


@pytest.mark.parametrize("version", range(2))
async def test_every_version_joins_and_leaves(tmp_path, autojump_clock, version):
    async with open_rig(tmp_path) as rig:
        served(rig)
        answer = await rig.call(consumer_group_heartbeat, joining(), version)
        assert answer.error_code == E.NOT_COORDINATOR
        await rig.leading()
        answer = await rig.call(consumer_group_heartbeat, joining(), version)
        assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "m", 2)
        (mine,) = answer.assignment.topic_partitions
        assert mine == TopicPartitions(topic_id=TOPIC_ID, partitions=[0, 1, 2, 3])
        again = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=2)
        answer = await rig.call(consumer_group_heartbeat, again, version)
        assert (answer.error_code, answer.assignment) == (0, None)
        left = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-1)
        answer = await rig.call(consumer_group_heartbeat, left, version)
        assert (answer.error_code, answer.member_epoch) == (0, -1)


async def test_version_0_generates_member_ids(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        served(rig)
        await rig.leading()
        answer = await rig.call(consumer_group_heartbeat, joining(""), 0)
        assert answer.error_code == E.NONE
        assert len(answer.member_id) == 36
        assert (
            await rig.call(consumer_group_heartbeat, joining(""), 1)
        ).error_code == E.INVALID_REQUEST


async def test_heartbeat_without_feature_is_not_served(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        await rig.leading()
        served(rig, 0)
        answer = await rig.call(consumer_group_heartbeat, joining(), 1)
        assert answer.error_code == E.UNSUPPORTED_VERSION
        served(rig)
        rig.context.config["group.coordinator.rebalance.protocols"] = ["classic"]
        answer = await rig.call(consumer_group_heartbeat, joining(), 1)
        assert answer.error_code == E.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"group_id": ""}, E.INVALID_REQUEST),
        ({"member_id": ""}, E.INVALID_REQUEST),
        ({"instance_id": ""}, E.INVALID_REQUEST),
        ({"rack_id": ""}, E.INVALID_REQUEST),
        ({"member_id": "x" * (MEMBER_ID_CHARACTERS_MAX + 1)}, E.INVALID_REQUEST),
        ({"member_epoch": -3}, E.INVALID_REQUEST),
        ({"member_epoch": -2}, E.INVALID_REQUEST),
        ({"member_epoch": 5}, E.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1}, E.GROUP_ID_NOT_FOUND),
        ({"rebalance_timeout_ms": -1}, E.INVALID_REQUEST),
        ({"topic_partitions": None}, E.INVALID_REQUEST),
        (
            {"topic_partitions": [TopicPartitions(topic_id=TOPIC_ID, partitions=[0])]},
            E.INVALID_REQUEST,
        ),
        ({"subscribed_topic_names": None}, E.INVALID_REQUEST),
        ({"subscribed_topic_names": ["t" * 200] * 5000}, E.INVALID_REQUEST),
        ({"server_assignor": "sticky"}, E.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "(a"}, E.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "(?=a)"}, E.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "a{1000}{1000}"}, E.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "((a{100}){100}){100}"}, E.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "a" * 20_000}, E.INVALID_REGULAR_EXPRESSION),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_invalid_heartbeat_leaves_no_trace(tmp_path, autojump_clock, wrong, code):
    """mA6."""
    async with open_rig(tmp_path) as rig:
        served(rig)
        await rig.leading()
        answer = await rig.call(consumer_group_heartbeat, joining(**wrong), 1)
        assert E(answer.error_code) is code
        shard = rig.epoch(rig.index_of("g")).active()
        assert not shard.store.knows("g")
        assert rig.leaders[rig.index_of("g")].log.log_end_offset == 0


def subscribed(regex, **changes):
    return joining(subscribed_topic_names=None, subscribed_topic_regex=regex, **changes)


async def resolved(rig, regex):
    """Returns the matches of the group's pattern."""
    shard = rig.epoch(rig.index_of("g")).active()
    while regex not in shard.store.of("consumer")["g"].regexes:
        await yield_to_loop()
    return shard.store.of("consumer")["g"].regexes[regex].topics


@pytest.mark.parametrize("regex", ["(t+)+(t+)+x|t", r"(?:[a-z0-9.\-]?){1000}"])
async def test_pattern_is_matched_off_loop_before_next_heartbeat(tmp_path, monkeypatch, regex):
    threads = set()
    compile_it = topic_patterns.compiled

    def noting(pattern):
        matches = compile_it(pattern)
        threads.add(get_ident())
        return lambda name: threads.add(get_ident()) or matches(name)

    monkeypatch.setattr(topic_patterns, "compiled", noting)
    async with open_rig(tmp_path) as rig:
        served(rig)
        await rig.leading()
        answer = await rig.call(consumer_group_heartbeat, subscribed(regex), 1)
        assert (answer.member_epoch, answer.assignment.topic_partitions) == (1, [])
        assert await resolved(rig, regex) == {"t"}
        again = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1)
        answer = await rig.call(consumer_group_heartbeat, again, 1)
        assert answer.member_epoch == 2
        assert [
            len(topic_partition.partitions)
            for topic_partition in answer.assignment.topic_partitions
        ] == [4]
        assert threads
        assert get_ident() not in threads


async def test_many_members_with_many_patterns_get_their_topics(tmp_path):
    async with open_rig(tmp_path) as rig:
        served(rig)
        await rig.leading()
        regexes = [f"t|{number}" for number in range(20)]
        async with trio.open_nursery() as nursery:
            for number, regex in enumerate(regexes):
                beat = subscribed(regex, member_id=f"m{number}")
                nursery.start_soon(rig.call, consumer_group_heartbeat, beat, 1)
        for regex in regexes:
            assert await resolved(rig, regex) == {"t"}


async def test_pattern_skips_unauthorized_topics(tmp_path):
    async with open_rig(tmp_path) as rig:
        served(rig)
        rig.context.authorizer = authorizer()  # allows `t` only
        await rig.leading()
        await rig.call(consumer_group_heartbeat, subscribed(".*"), 1)
        assert await resolved(rig, ".*") == {"t"}


async def test_epoch_end_drops_its_patterns(tmp_path):
    async with open_rig(tmp_path) as rig:
        served(rig)
        await rig.leading()
        await rig.call(consumer_group_heartbeat, subscribed("t.*"), 1)
        rig.resign(rig.index_of("g"))
        rig.lead(rig.index_of("g"), epoch=1)
        await rig.loaded(rig.index_of("g"))
        again = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1)
        await rig.call(consumer_group_heartbeat, again, 1)
        assert await resolved(rig, "t.*") == {"t"}


async def test_protocols_do_not_share_members(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        served(rig)
        await rig.leading()
        await rig.call(consumer_group_heartbeat, joining(), 1)
        assert (
            await rig.call(heartbeat, classic_request("m"), 4)
        ).error_code == E.UNKNOWN_MEMBER_ID
        mixed = await rig.call(join_group, join_request(protocol_type="connect"), 3)
        assert mixed.error_code == E.INCONSISTENT_GROUP_PROTOCOL


async def test_offsets_are_read_at_the_members_epoch(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        served(rig)
        await rig.leading()
        await rig.call(consumer_group_heartbeat, joining(), 1)
        for member_id, epoch, code in (
            ("m", 2, E.NONE),
            ("m", 3, E.STALE_MEMBER_EPOCH),
            ("x", 1, E.UNKNOWN_MEMBER_ID),
            (None, -1, E.NONE),
        ):
            asked = OffsetFetchRequestGroup(
                group_id="g",
                member_id=member_id,
                member_epoch=epoch,
                topics=[
                    OffsetFetchRequestTopics(name="t", topic_id=TOPIC_ID, partition_indexes=[0])
                ],
            )
            for version in (9, 10):
                request = OffsetFetchRequest(groups=[asked])
                answer = await rig.call(offset_fetch, request, version)
                assert E(answer.groups[0].error_code) is code
