"""Counts of rebalances: new epochs and generations while the shard serves."""

import pytest
import trio

from tests.broker.groups.rig import open_rig
from tests.broker.groups.test_coordinator import (
    commit_request,
    heartbeat,
    join_request,
    new_member,
    sync_request,
)
from trimaran.broker.groups.classic import kind as classic
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.registry import KINDS
from trimaran.broker.groups.share import kind as share
from trimaran.broker.groups.store import GroupStore
from trimaran.broker.groups.streams import kind as streams
from trimaran.wire.messages.leave_group import LeaveGroupRequest
from trimaran.wire.records.share_groups import ShareGroupMetadataKey, ShareGroupMetadataValue
from trimaran.wire.records.streams_groups import (
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_each_kind_has_a_record_of_its_epoch(kind):
    assert kind.epoch_record.key in {record.key for record in kind.records}


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        (share.KIND, ShareGroupMetadataKey, ShareGroupMetadataValue),
        (streams.KIND, StreamsGroupMetadataKey, StreamsGroupMetadataValue),
    ],
)
def test_only_another_epoch_is_a_rebalance(kind, key, value):
    store = GroupStore(KINDS)
    seen = []
    for offset, epoch in enumerate((1, 1, 2, None)):
        made = None if epoch is None else value(epoch=epoch, metadata_hash=0)
        record = GroupRecord(key(group_id="g"), made)
        seen.append(kind.is_rebalance(store, record))
        store.replay(offset, record)
    assert seen == [True, False, True, False]


async def test_epochs_of_consumer_groups_count(tmp_path):
    async with open_rig(tmp_path) as rig:
        for index in {rig.index_of("g"), rig.index_of("h")}:
            rig.lead(index)
            await rig.loaded(index)
        for member in ("a", "b"):
            heartbeat(rig, new_member(member))
        rig.groups.commit_offsets(commit_request(7, group="h"), 9)
        assert rig.groups.rebalances == {"consumer": 2}


async def test_assigned_generations_of_classic_groups_count(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        rig.lead(rig.index_of("g"))
        await rig.loaded(rig.index_of("g"))
        joining = rig.groups.join(join_request(), 3, "c", "/h")
        await trio.sleep(10)
        joined = joining.response
        rig.groups.sync(sync_request(joined.member_id, joined.generation_id, {}))
        assert rig.groups.rebalances == {"classic": 1}
        rig.groups.leave(LeaveGroupRequest(group_id="g", member_id=joined.member_id), 2)
        group = rig.epoch(rig.index_of("g")).active().of(classic.KIND).groups["g"]
        assert (group.generation, rig.groups.rebalances) == (2, {"classic": 1}), "it is empty"


async def test_loaded_epochs_do_not_count(tmp_path):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        heartbeat(rig, new_member("a"))
        rig.groups.rebalances.clear()
        rig.resign(index)
        rig.lead(index, 1)
        await rig.loaded(index)
        assert rig.groups.rebalances == {}
        assert "g" in rig.epoch(index).active().store.of("consumer")
