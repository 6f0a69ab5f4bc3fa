"""ShareFetch and ShareAcknowledge: whole responses, what they count, and the bounds of waiting."""

from __future__ import annotations

import pytest
import trio

from tests.broker.calls import Paused, started
from tests.broker.sharing.rig import sharing_rig, shown
from tests.cluster.data_side import topic_id
from trimaran.broker.sharing.share_fetch import ShareFetch
from trimaran.broker.sharing.share_partitions import SharePartitions
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages import share_acknowledge as acknowledging
from trimaran.wire.messages import share_fetch as fetching

GAP, ACCEPT, RELEASE, REJECT = range(4)


async def settle():
    await trio.testing.wait_all_tasks_blocked()


async def begun(rig, *indexes):
    """Begins the session of member m. Its share partitions are loaded after the response, which therefore has no
    records.
    """
    rig.states.open = trio.Event()
    await rig.fetched(0, *(indexes or (0,)))
    rig.states.open.set()
    await settle()


def traffic(rig):
    """Returns fetches, failed ones, acknowledgements and failed ones of topic `t`."""
    found = rig.context.partitions.traffic.find("t")
    return (
        found.share_fetches,
        found.failed_share_fetches,
        found.share_acknowledgements,
        found.failed_share_acknowledgements,
    )


async def test_requests_are_counted_once_per_topic(tmp_path):
    async with sharing_rig(tmp_path, partitions=2) as rig:
        rig.produce(10)
        await begun(rig, 0, 1)
        assert traffic(rig) == (1, 0, 0, 0)
        await rig.fetched(1)
        assert traffic(rig) == (2, 0, 0, 0)
        await rig.acknowledged(2, {0: [(0, 1, [ACCEPT])], 1: []})
        assert traffic(rig) == (2, 0, 1, 0)
        await rig.acknowledged(3, {0: [(2, 3, [ACCEPT])], 1: [(0, 0, [ACCEPT])]})
        assert traffic(rig) == (2, 0, 2, 1)
        await rig.fetched(4, acks={0: [(4, 5, [ACCEPT])]})
        assert traffic(rig) == (3, 0, 3, 1)
        rig.set_image(replicas=(11, 12), leader=12, leader_epoch=5)
        await rig.fetched(5)
        assert traffic(rig) == (4, 1, 3, 1)


async def test_stored_acknowledgements_are_counted_by_type(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(20)
        await begun(rig)
        await rig.fetched(1)
        counted = rig.counts.acknowledgements
        await rig.acknowledged(
            2, {0: [(0, 4, [ACCEPT]), (5, 7, [REJECT, RELEASE, ACCEPT]), (8, 8, [GAP])]}
        )
        assert counted == {ACCEPT: 6, REJECT: 1, RELEASE: 1, GAP: 1}
        await rig.acknowledged(3, {0: [(0, 4, [ACCEPT])]})
        rig.states.failure = ErrorCode.COORDINATOR_NOT_AVAILABLE
        await rig.acknowledged(4, {0: [(9, 9, [ACCEPT])]})
        assert counted == {ACCEPT: 11, REJECT: 1, RELEASE: 1, GAP: 1}


async def test_available_records_need_no_wait(tmp_path, monkeypatch, autojump_clock):
    async with sharing_rig(tmp_path) as rig:
        await begun(rig)
        rig.produce(1)
        monkeypatch.setattr(ShareFetch, "attach", lambda _fetch: pytest.fail("it waits"))
        answer = await rig.fetched(1, max_wait_ms=1_000)
        assert answer.responses[0].partitions[0].records.size > 0


async def test_waits_and_their_ends_are_counted(tmp_path, autojump_clock):
    async with sharing_rig(tmp_path) as rig:
        await begun(rig)
        counts = rig.counts
        waiting = rig.start_fetch(1, max_wait_ms=1_000)
        assert isinstance(waiting, Paused)
        assert (counts.waiting, counts.expired) == (1, 0)
        rig.produce(1)
        await waiting.finish()
        assert (counts.waiting, counts.expired) == (0, 0)
        await rig.fetched(2, max_wait_ms=1_000)
        assert (counts.waiting, counts.expired) == (0, 1)
        assert counts.of("g").acquire_times.count == 3
        assert rig.share().readers == {}


@pytest.mark.parametrize(
    ("asked_ms", "seconds"), [(299_999, 299.999), (300_000, 300), (300_001, 300), (1 << 30, 300)]
)
async def test_wait_has_a_bound(tmp_path, autojump_clock, asked_ms, seconds):
    async with sharing_rig(tmp_path, sessions_max=1) as rig:
        await begun(rig)
        began = trio.current_time()
        await rig.fetched(1, max_wait_ms=asked_ms)
        assert trio.current_time() - began == pytest.approx(seconds)
        began = trio.current_time()
        with pytest.raises(KafkaError):
            await rig.fetched(0, 0, member_id="n", max_wait_ms=asked_ms)
        assert trio.current_time() - began == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("limits", "is_opened"),
    [({"max_records": 0}, False), ({"max_bytes": 0}, False), ({"max_bytes": 1}, True),
     ({"max_records": 1}, True), ({"max_records": -1}, False), ({"max_bytes": -1}, False)],
)  # fmt: skip
async def test_fetch_of_nothing_opens_no_partition(tmp_path, limits, is_opened):
    async with sharing_rig(tmp_path) as rig:
        await rig.fetched(0, 0, **limits)
        assert (rig.share() is not None) is is_opened


async def test_minimum_above_the_maximum_is_lowered(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(10)
        await begun(rig)
        response = await rig.fetched(1, min_bytes=1 << 20, max_bytes=50)
        assert shown(response) == {0: (0, [(0, 9, 1)], 0)}


NOWHERE = {"leader_id": -1, "leader_epoch": -1}


async def test_fetch_has_each_field_of_its_partitions(tmp_path):
    async with sharing_rig(tmp_path, partitions=2) as rig:
        rig.produce(5, 5)
        await begun(rig, 0, 1)
        response = await rig.fetched(1, acks={1: [(0, 0, [ACCEPT])]}, max_records=5)
        (topic,) = response.responses
        data = {each.partition_index: each for each in topic.partitions}
        records, data[0].records = data[0].records, b""
        assert records.size > 0
        assert response == fetching.ShareFetchResponse(
            acquisition_lock_timeout_ms=30_000,
            responses=[
                fetching.ShareFetchableTopicResponse(
                    topic_id=topic_id("t"), partitions=list(data.values())
                )
            ],
            node_endpoints=[],
        )
        nothing = {"current_leader": fetching.LeaderIdAndEpoch(**NOWHERE), "records": b""}
        assert data == {
            0: fetching.PartitionData(
                partition_index=0,
                acquired_records=[
                    fetching.AcquiredRecords(first_offset=0, last_offset=4, delivery_count=1)
                ],
                **nothing,
            ),
            1: fetching.PartitionData(
                partition_index=1,
                acknowledge_error_code=ErrorCode.INVALID_RECORD_STATE,
                acknowledge_error_message=data[1].acknowledge_error_message,
                acquired_records=[],
                **nothing,
            ),
        }
        assert data[1].acknowledge_error_message


async def test_responses_name_the_new_leader(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(10)
        await begun(rig)
        await rig.fetched(1)
        rig.states.open = trio.Event()
        waiting = started(rig.acknowledge(2, {0: [(0, 9, [ACCEPT])]}))
        await settle()
        rig.set_image(replicas=(11, 12), leader=12, leader_epoch=5)
        answer = await waiting.finish()
        (data,) = answer.responses[0].partitions
        leader = {"leader_id": 12, "leader_epoch": 5}
        assert answer == acknowledging.ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=30_000,
            responses=[
                acknowledging.ShareAcknowledgeTopicResponse(
                    topic_id=topic_id("t"),
                    partitions=[
                        acknowledging.PartitionData(
                            partition_index=0,
                            error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                            error_message=data.error_message,
                            current_leader=acknowledging.LeaderIdAndEpoch(**leader),
                        )
                    ],
                )
            ],
            node_endpoints=[],  # the cluster has no broker 12
        )
        response = await rig.fetched(3)
        (data,) = response.responses[0].partitions
        assert data == fetching.PartitionData(
            partition_index=0,
            error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            error_message=data.error_message,
            current_leader=fetching.LeaderIdAndEpoch(**leader),
            records=b"",
            acquired_records=[],
        )


async def test_share_partition_belongs_to_one_group(tmp_path):
    async with sharing_rig(tmp_path, partitions=2) as rig:
        sharing: SharePartitions = rig.sharing
        rig.configs[32, "h"] = {"share.auto.offset.reset": "earliest"}
        rig.set_image()
        rig.produce(5)
        rig.produce(5, index=1)
        await begun(rig, 0, 1)
        await rig.fetched(0, 0, group_id="h", member_id="n")
        await settle()
        assert [(share.key.group_id, share.key.partition) for share in sharing] == [
            ("g", 0), ("g", 1), ("h", 0)
        ]  # fmt: skip
        assert len(sharing) == 3
        assert [group for group, _ in rig.counts.groups()] == ["g", "h"]
        await rig.fetched(1)
        await rig.fetched(1, group_id="h", member_id="n")
        assert sharing._runs == sum(share.core.run_count for share in sharing) == 3
        await rig.fetched(-1)
        await settle()
        assert [(share.key.group_id, share.key.partition) for share in sharing] == [("h", 0)]
        assert [group for group, _ in rig.counts.groups()] == ["h"]
        assert (sharing._runs, rig.counts.evictions) == (1, 0)
        rig.connection.mark_closed()
        await settle()
        assert (len(sharing), sharing._runs, rig.counts.evictions) == (0, 0, 1)
