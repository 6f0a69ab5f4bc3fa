"""The five APIs of the share coordinator: each share partition is decided alone, and has its own result."""

from __future__ import annotations

import pytest
import trio.testing

from tests.broker.calls import call, started, through_wire
from tests.broker.share_state.driver import TOPIC_ID
from tests.broker.share_state.requests import (
    HANDLER_OF,
    UNKNOWN_ID,
    ask,
    change,
    codes,
    delete,
    initialize,
    read,
    summary,
    write,
)
from tests.broker.share_state.rig import open_rig
from trimaran.broker.handlers.initialize_share_group_state import initialize_share_group_state
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages import read_share_group_state as reading
from trimaran.wire.messages import read_share_group_state_summary as summing
from trimaran.wire.transport.requests.handles import declaration_of

E = ErrorCode


async def test_state_is_initialized_written_read_and_deleted(tmp_path):
    async with open_rig(tmp_path) as rig:
        assert codes(await ask(rig, initialize(0, 1))) == {(TOPIC_ID, 0): 0, (TOPIC_ID, 1): 0}
        assert codes(await ask(rig, read(0))) == {(TOPIC_ID, 0): 0}
        item = change(0, (101, 104, 2, 1), (105, 105, 0, 2), start_offset=101, count=4)
        assert codes(await ask(rig, write(item))) == {(TOPIC_ID, 0): 0}
        (topic,) = (await ask(rig, read(0, 1))).results
        batches = [
            reading.StateBatch(
                first_offset=101, last_offset=104, delivery_state=2, delivery_count=1
            ),
            reading.StateBatch(
                first_offset=105, last_offset=105, delivery_state=0, delivery_count=2
            ),
        ]
        assert topic == reading.ReadStateResult(
            topic_id=TOPIC_ID,
            partitions=[
                reading.PartitionResult(
                    partition=0, state_epoch=1, start_offset=101, state_batches=batches
                ),
                reading.PartitionResult(
                    partition=1, state_epoch=1, start_offset=100, state_batches=[]
                ),
            ],
        )
        (topic,) = (await ask(rig, summary(0, 2))).results
        assert topic.partitions == [
            summing.PartitionResult(
                partition=0,
                state_epoch=1,
                leader_epoch=5,
                start_offset=101,
                delivery_complete_count=4,
            ),
            summing.PartitionResult(
                partition=2,
                state_epoch=0,
                leader_epoch=0,
                start_offset=-1,
                delivery_complete_count=-1,
            ),
        ]
        assert codes(await ask(rig, delete(0, 2))) == {(TOPIC_ID, 0): 0, (TOPIC_ID, 2): 0}
        assert codes(await ask(rig, read(0))) == {(TOPIC_ID, 0): E.INVALID_REQUEST}


@pytest.mark.parametrize("make", [initialize, summary, delete])
async def test_each_partition_has_its_own_error(tmp_path, make):
    async with open_rig(tmp_path) as rig:
        request = make(-1, 0, 3)
        request.topics += make(0, topic_id=UNKNOWN_ID).topics
        response = await ask(rig, request)
        assert codes(response) == {
            (TOPIC_ID, -1): E.INVALID_REQUEST,
            (TOPIC_ID, 0): E.NONE,
            (TOPIC_ID, 3): E.UNKNOWN_TOPIC_OR_PARTITION,
            (UNKNOWN_ID, 0): E.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert [result.error_message for result in response.results[0].partitions] == [
            "the partition is negative",
            None,
            E.UNKNOWN_TOPIC_OR_PARTITION.sentence,
        ]


@pytest.mark.parametrize("make", [initialize, read, summary, delete])
async def test_an_empty_request_has_no_results(tmp_path, make):
    async with open_rig(tmp_path) as rig:
        none = make(0)
        none.topics = []
        half = make(0)
        half.topics += make().topics
        for request in (none, make(), half, make(0, group_id="")):
            assert (await ask(rig, request)).results == []
        assert rig.leader.log.log_end_offset == 0


@pytest.mark.parametrize(
    ("make", "code"), [(initialize, E.NOT_COORDINATOR), (read, E.NOT_COORDINATOR)]
)
async def test_another_coordinator_is_reported_for_each(tmp_path, make, code):
    async with open_rig(tmp_path, leads=False) as rig:
        assert codes(await ask(rig, make(0, 1))) == {(TOPIC_ID, 0): code, (TOPIC_ID, 1): code}


async def test_a_response_comes_after_all_commits(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.leader.holding = True
        request = initialize(0, 1)
        waiting = started(initialize_share_group_state(request, rig, call(request, 0)))
        assert not waiting.ready()
        rig.leader.commit()
        assert waiting.ready()
        assert codes(through_wire(await waiting.finish(), 0)) == {
            (TOPIC_ID, 0): 0,
            (TOPIC_ID, 1): 0,
        }


async def test_state_of_ended_epoch_is_not_coordinated(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.leader.holding = True
        request = initialize(0)
        waiting = started(initialize_share_group_state(request, rig, call(request, 0)))
        rig.resign()
        await trio.testing.wait_all_tasks_blocked()
        assert codes(through_wire(await waiting.finish(), 0)) == {(TOPIC_ID, 0): E.NOT_COORDINATOR}


@pytest.mark.parametrize(
    "make", [initialize, read, summary, delete, lambda *at: write(*map(change, at))]
)
def test_refused_request_has_an_error_for_each(make):
    request = make(0, 1)
    handled = declaration_of(HANDLER_OF[type(request)])
    found = handled.on_error(request, E.CLUSTER_AUTHORIZATION_FAILED, "why")
    found = through_wire(found, handled.versions.high)
    assert codes(found) == {
        (TOPIC_ID, 0): E.CLUSTER_AUTHORIZATION_FAILED,
        (TOPIC_ID, 1): E.CLUSTER_AUTHORIZATION_FAILED,
    }
    assert found.results[0].partitions[0].error_message == "why"
