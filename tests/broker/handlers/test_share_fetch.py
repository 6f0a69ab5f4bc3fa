"""ShareFetch: sessions, waiting, acquisition from real logs, and acknowledgements in a fetch."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import trio

from tests.broker.calls import Paused, connection, started
from tests.broker.sharing.rig import refusals, sharing_rig, shown, transact
from tests.cluster.data_side import topic_id
from trimaran.broker.handlers import share_fetch
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.features import SHARE_VERSION
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.messages import share_fetch as messages


async def settle():
    await trio.testing.wait_all_tasks_blocked()


async def first_fetch(rig, **changes):
    """Loads the share partitions in the first request of the session, and acquires in the second."""
    rig.states.open = trio.Event()
    await rig.fetched(0, *range(rig.image_partitions), **changes)
    rig.states.open.set()
    await settle()
    return await rig.fetched(1, **changes)


async def test_fetch_acquires_available_records(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(10, 5)
        response = await first_fetch(rig)
        assert shown(response) == {0: (0, [(0, 14, 1)], 0)}
        assert response.acquisition_lock_timeout_ms == 30_000
        data = response.responses[0].partitions[0]
        assert len(data.records.read()) == data.records.size > 0
        assert shown(await rig.fetched(2)) == {}


async def test_first_fetch_waits_for_the_state(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(3)
        waiting = rig.start_fetch(0, 0, max_wait_ms=1_000)
        assert isinstance(waiting, Paused)
        assert shown(await waiting.finish()) == {0: (0, [(0, 2, 1)], 0)}


async def test_fetch_waits_for_records(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        await rig.fetched(0, 0)
        await settle()
        waiting = rig.start_fetch(1, max_wait_ms=60_000)
        assert isinstance(waiting, Paused)
        rig.produce(2)
        assert shown(await waiting.finish()) == {0: (0, [(0, 1, 1)], 0)}
        assert rig.share().readers == {}


async def test_fetch_waits_for_released_records(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(2)
        await first_fetch(rig)
        await rig.fetched(0, 0, member_id="n")
        waiting = rig.start_fetch(1, member_id="n", max_wait_ms=60_000)
        await rig.acknowledged(2, {0: [(0, 1, [2])]})
        assert shown(await waiting.finish()) == {0: (0, [(0, 1, 2)], 0)}


async def test_fetch_without_records_ends_in_time(tmp_path, autojump_clock):
    async with sharing_rig(tmp_path) as rig:
        await rig.fetched(0, 0)
        begun = trio.current_time()
        assert shown(await rig.fetched(1, max_wait_ms=2_000)) == {}
        assert trio.current_time() - begun == pytest.approx(2)


async def test_minimum_of_bytes_is_waited_for(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        await rig.fetched(0, 0)
        await settle()
        rig.produce(1)
        waiting = rig.start_fetch(1, max_wait_ms=60_000, min_bytes=100)
        assert isinstance(waiting, Paused)
        rig.produce(1)
        assert shown(await waiting.finish()) == {0: (0, [(0, 1, 1)], 0)}


async def test_limits_of_records_and_bytes_hold(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(10, 10, 10)
        assert shown(await first_fetch(rig, max_records=11)) == {0: (0, [(0, 19, 1)], 0)}
        exact = await rig.fetched(2, max_records=3, share_acquire_mode=1)
        assert shown(exact) == {0: (0, [(20, 22, 1)], 0)}
        rest = await rig.fetched(3, max_bytes=1)
        assert shown(rest) == {0: (0, [(23, 29, 1)], 0)}
        assert shown(await rig.fetched(4, max_records=0)) == {}


async def test_sent_batches_are_those_acquired(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(10, 10, 10)
        response = await first_fetch(rig, max_records=10)
        size = response.responses[0].partitions[0].records.size
        again = await rig.fetched(2)
        assert shown(again) == {0: (0, [(10, 29, 1)], 0)}
        assert again.responses[0].partitions[0].records.size == 2 * size


async def test_records_of_a_fetch_are_shared_by_partitions(tmp_path):
    async with sharing_rig(tmp_path, partitions=2) as rig:
        rig.produce(10)
        rig.produce(10, index=1)
        response = await first_fetch(rig, max_records=10)
        assert shown(response) == {1: (0, [(0, 9, 1)], 0)}
        assert shown(await rig.fetched(2)) == {0: (0, [(0, 9, 1)], 0)}


async def test_fetch_carries_acknowledgements(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(10)
        await first_fetch(rig)
        rig.produce(5)
        response = await rig.fetched(2, acks={0: [(0, 4, [1]), (5, 9, [3, 1, 1, 1, 1])]})
        assert shown(response) == {0: (0, [(10, 14, 1)], 0)}
        assert rig.states.written == [[(0, 4, 2, 1), (5, 5, 4, 1), (6, 9, 2, 1)]]
        refused = await rig.fetched(3, acks={0: [(0, 20, [1])]})
        assert shown(refused) == {0: (0, [], ErrorCode.INVALID_REQUEST)}
        assert shown(await rig.fetched(4, 0, acks={0: [(10, 14, [1])]})) == {0: (0, [], 0)}


@pytest.mark.parametrize(
    "batches",
    [
        [(4, 3, [1])],
        [(5, 6, [1]), (4, 9, [1])],
        [(0, 3, [])],
        [(0, 3, [1, 1])],
        [(0, 3, [5])],
        [(0, 3, [-1])],
        [(0, 3, [4])],
    ],
)
async def test_absurd_acknowledgements_are_refused(tmp_path, batches):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(10)
        await first_fetch(rig)
        response = await rig.fetched(2, acks={0: batches})
        assert shown(response) == {0: (0, [], ErrorCode.INVALID_REQUEST)}
        assert rig.states.written == []
        assert shown(await rig.fetched(3, acks={0: [(0, 9, [1])]})) == {0: (0, [], 0)}


async def test_renewal_cannot_fetch(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(10)
        await first_fetch(rig)
        rig.harness.now += 20
        nothing = {"max_bytes": 0, "min_bytes": 0, "max_records": 0}
        response = await rig.fetched(2, acks={0: [(0, 9, [4])]}, is_renew_ack=True, **nothing)
        assert shown(response) == {0: (0, [], 0)}
        assert rig.share().core.next_deadline == rig.harness.now + 30
        with pytest.raises(KafkaError) as refused:
            await rig.fetched(3, acks={0: [(0, 9, [4])]}, is_renew_ack=True)
        assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [1, 2])
async def test_acknowledging_response_without_records_is_encodable(tmp_path, version):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(10)
        await first_fetch(rig)
        response = await rig.fetched(-1, acks={0: [(0, 3, [1])]}, version=version)
        again = messages.ShareFetchResponse.decode(response.encode(version), version)
        assert shown(again) == {0: (0, [], 0)}
        assert again.responses[0].partitions[0].records == b""


async def test_final_epoch_releases_the_rest(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(10)
        await first_fetch(rig)
        assert shown(await rig.fetched(-1, acks={0: [(0, 3, [1])]})) == {0: (0, [], 0)}
        await settle()
        assert rig.states.written_batches == [(0, 3, 2, 1), (4, 9, 0, 1)]
        assert (len(rig.sessions), len(rig.sharing)) == (0, 0)
        assert shown(await first_fetch(rig, member_id="n")) == {0: (0, [(4, 9, 2)], 0)}


async def test_closed_connection_releases_records(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(10)
        await first_fetch(rig)
        rig.connection.mark_closed()
        await settle()
        assert rig.states.written == [[(0, 9, 0, 1)]]
        assert len(rig.sessions) == 0


@pytest.mark.parametrize(
    ("epoch", "changes", "code"),
    [
        (1, {}, ErrorCode.SHARE_SESSION_NOT_FOUND),
        (-1, {}, ErrorCode.SHARE_SESSION_NOT_FOUND),
        (0, {"acks": {0: [(0, 1, [1])]}}, ErrorCode.INVALID_REQUEST),
        (0, {"group_id": None}, ErrorCode.INVALID_REQUEST),
        (0, {"member_id": None}, ErrorCode.INVALID_REQUEST),
        (0, {"member_id": ""}, ErrorCode.INVALID_REQUEST),
        (0, {"member_id": "x" * 37}, ErrorCode.INVALID_REQUEST),
        (0, {"share_acquire_mode": 2}, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_request_as_a_whole_is_refused(tmp_path, epoch, changes, code):
    async with sharing_rig(tmp_path) as rig:
        with pytest.raises(KafkaError) as refused:
            await rig.fetched(epoch, 0, **changes)
        assert refused.value.code is code


async def test_disabled_feature_refuses_requests(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.set_image(share_version=0)
        for request in (rig.fetched(0, 0), rig.acknowledged(1, {0: []})):
            with pytest.raises(KafkaError) as refused:
                await request
            assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


async def test_disabling_the_feature_ends_all_share_partitions(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(3)
        await first_fetch(rig)
        waiting = rig.start_fetch(2, max_wait_ms=60_000)
        await publish_level(rig, 2)
        assert (len(rig.sessions), len(rig.sharing)) == (1, 1)
        await publish_level(rig, None)
        assert (len(rig.sessions), len(rig.sharing)) == (0, 0)
        assert shown(await waiting.finish()) == {0: (ErrorCode.NOT_LEADER_OR_FOLLOWER, [], 0)}
        assert rig.states.written == []
        await publish_level(rig, 1)
        assert shown(await first_fetch(rig)) == {0: (0, [(0, 2, 1)], 0)}


async def test_disabled_feature_still_stores_acknowledgements(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(3)
        await first_fetch(rig)
        rig.states.open = trio.Event()
        acknowledging = started(rig.acknowledge(2, {0: [(0, 2, [1])]}))
        await publish_level(rig, None)
        assert (len(rig.sessions), len(rig.sharing)) == (0, 1)
        rig.states.open.set()
        assert refusals(await acknowledging.finish()) == {0: 0}
        assert len(rig.sharing) == 0


@pytest.mark.parametrize("reopened", [1, 2])
async def test_retiring_share_partition_is_loaded_again(tmp_path, reopened):
    """The new one reads the state after the last write of the old one, also if another began to load meanwhile."""
    async with sharing_rig(tmp_path) as rig:
        rig.produce(3)
        await first_fetch(rig)
        old = rig.share()
        rig.states.open = trio.Event()
        acknowledging = started(rig.acknowledge(2, {0: [(0, 1, [1])]}))
        for _ in range(reopened):
            await publish_level(rig, None)
            await publish_level(rig, 1)
            await rig.fetched(0, 0)
        assert rig.share() is not old
        assert len(rig.sharing) == 1
        rig.states.open.set()
        assert refusals(await acknowledging.finish()) == {0: 0}
        await settle()
        assert (old.core.start, rig.share().core.start) == (2, 2)
        assert shown(await rig.fetched(1)) == {0: (0, [(2, 2, 1)], 0)}


async def test_old_state_is_not_written_to_recreated_group(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(3)
        await rig.states.initialize(rig.key(), 9, 0)
        await first_fetch(rig)
        rig.states.open = trio.Event()
        acknowledging = started(rig.acknowledge(2, {0: [(0, 2, [1])]}))
        await publish_level(rig, None)
        await publish_level(rig, 1)
        await rig.states.initialize(rig.key(), 1, 0)
        await rig.fetched(0, 0)
        rig.states.failure = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # as while the group is deleted
        rig.states.open.set()
        assert refusals(await acknowledging.finish()) == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        rig.states.failure = None
        await settle()
        assert rig.share().core.state_epoch == 1
        assert shown(await rig.fetched(1)) == {0: (0, [(0, 2, 1)], 0)}


async def publish_level(rig, level):
    """Publishes a change of `share.version`."""
    rig.set_image(level)
    delta = MetadataDelta(rig.harness.metadata.image)
    delta.features.changed[SHARE_VERSION] = level
    rig.sharing.publish(delta, rig.harness.metadata.image, None)
    await settle()


async def test_full_sessions_refuse_after_the_wait(tmp_path, autojump_clock):
    async with sharing_rig(tmp_path, sessions_max=1) as rig:
        await rig.fetched(0, 0)
        begun = trio.current_time()
        with pytest.raises(KafkaError) as refused:
            await rig.fetched(0, 0, member_id="n", max_wait_ms=5_000)
        assert refused.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
        assert trio.current_time() - begun == pytest.approx(5)


async def test_unknown_topics_and_partitions_are_named(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        unknown = messages.FetchTopic(
            topic_id=topic_id("u"),
            partitions=[messages.FetchPartition(partition_index=3, acknowledgement_batches=[])],
        )
        response = await rig.fetched(0, topics=[unknown])
        assert shown(response) == {3: (ErrorCode.UNKNOWN_TOPIC_ID, [], 0)}
        assert shown(await rig.fetched(0, 7)) == {7: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [], 0)}
        assert shown(await rig.fetched(1)) == {7: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [], 0)}
        assert shown(await rig.fetched(2, forgotten=(7,))) == {}


async def test_lost_leadership_ends_the_wait(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(3)
        await first_fetch(rig)
        waiting = rig.start_fetch(2, max_wait_ms=60_000)
        rig.set_image(replicas=(11, 12), leader=12, leader_epoch=5)
        response = await waiting.finish()
        assert shown(response) == {0: (ErrorCode.NOT_LEADER_OR_FOLLOWER, [], 0)}
        leader = response.responses[0].partitions[0].current_leader
        assert (leader.leader_id, leader.leader_epoch) == (12, 5)
        assert rig.share() is None
        assert shown(await rig.fetched(3)) == {0: (ErrorCode.NOT_LEADER_OR_FOLLOWER, [], 0)}


async def test_new_epoch_reads_the_state_anew(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(10)
        await first_fetch(rig)
        await rig.acknowledged(2, {0: [(0, 3, [1])]})
        rig.set_image(leader_epoch=1)
        waiting = rig.start_fetch(3, max_wait_ms=1_000)
        assert shown(await waiting.finish()) == {0: (0, [(4, 9, 1)], 0)}


async def test_failed_read_of_state_is_reported(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.states.failure = ErrorCode.NOT_COORDINATOR
        waiting = rig.start_fetch(0, 0, max_wait_ms=60_000)
        assert shown(await waiting.finish()) == {0: (ErrorCode.COORDINATOR_NOT_AVAILABLE, [], 0)}
        rig.states.failure = None
        again = rig.start_fetch(1, max_wait_ms=1_000)
        rig.produce(1)
        assert shown(await again.finish()) == {0: (0, [(0, 0, 1)], 0)}


async def test_records_are_redelivered_after_lock_timeout(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(3)
        await first_fetch(rig)
        rig.harness.now += 30
        rig.share().end_locks()
        assert shown(await rig.fetched(2)) == {0: (0, [(0, 2, 2)], 0)}
        await settle()
        assert rig.states.written == [[(0, 2, 0, 1)]]


@pytest.mark.parametrize(
    ("reset", "start"),
    [("earliest", 0), ("latest", 5), ("by_duration:PT0S", 5), ("by_duration:P9D", 0)],
)
async def test_new_group_begins_where_configured(tmp_path, reset, start):
    async with sharing_rig(tmp_path) as rig:
        rig.configure(share_auto_offset_reset=reset)
        rig.produce(5, timestamp_ms=900_000)
        await rig.fetched(0, 0)
        await settle()
        assert rig.share().core.start == start


async def test_deleted_records_are_skipped(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(5, 5)
        await rig.fetched(0, 0)
        await settle()
        rig.harness.leader().log.delete_records_before(5)
        assert shown(await rig.fetched(1)) == {0: (0, [(5, 9, 1)], 0)}


async def test_two_members_share_a_partition(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(5, 5)
        other = connection()
        await rig.fetched(0, 0, member_id="n", on=other)
        assert shown(await first_fetch(rig, max_records=5)) == {0: (0, [(0, 4, 1)], 0)}
        assert shown(await rig.fetched(1, member_id="n", on=other)) == {0: (0, [(5, 9, 1)], 0)}
        response = await rig.acknowledged(2, {0: [(5, 9, [1])]})
        assert refusals(response) == {0: ErrorCode.INVALID_RECORD_STATE}


async def test_committed_readers_get_no_aborted_records(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.configure(share_isolation_level="read_committed")
        transact(rig, 1, 3, is_commit=True)  # 0-2, marker 3
        transact(rig, 2, 3, is_commit=False)  # 4-6, marker 7
        rig.produce(2)  # 8-9
        rig.produce(2, is_transactional=True, producer_id=3, producer_epoch=0, base_sequence=0)
        assert shown(await first_fetch(rig)) == {0: (0, [(0, 3, 1), (7, 9, 1)], 0)}
        assert shown(await rig.fetched(2)) == {}
        done = await rig.fetched(3, acks={0: [(0, 3, [1]), (7, 9, [1])]})
        assert shown(done) == {0: (0, [], 0)}
        assert rig.share().core.start == 10


async def test_uncommitted_readers_get_all_records(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        transact(rig, 2, 3, is_commit=False)
        rig.produce(2, is_transactional=True, producer_id=3, producer_epoch=0, base_sequence=0)
        assert shown(await first_fetch(rig)) == {0: (0, [(0, 5, 1)], 0)}


class ChargedQuotas:
    """A fetch quota that charges, and lets the client wait for `seconds`."""

    def __init__(self):
        self.fetch = SimpleNamespace(is_set=True)
        self.seconds = 0.0
        self.charged = []

    def fetch_bytes_max(self, _call, most):
        return most

    def fetched(self, asked, size):
        self.charged.append(size)
        return asked.throttle(self.seconds)


async def test_exhausted_quota_leaves_records_free(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.states.open = trio.Event()
        await rig.fetched(0, 0)
        rig.states.open.set()
        await settle()
        quotas = ChargedQuotas()
        rig.context = replace(rig.context, quotas=quotas)
        rig.produce(10)
        quotas.seconds = 2.0
        throttled = await rig.fetched(1)
        assert (shown(throttled), throttled.throttle_time_ms) == ({}, 2_000)
        assert rig.share().core.size == 0
        quotas.seconds = 0.0
        response = await rig.fetched(2)
        assert shown(response) == {0: (0, [(0, 9, 1)], 0)}
        assert quotas.charged == [response.responses[0].partitions[0].records.size] * 2


@pytest.mark.parametrize(("count", "pauses"), [(99, 0), (100, 1), (199, 1), (200, 2)])
def test_traffic_is_counted_hundred_topics_at_once(count, pauses):
    names = {TopicIdPartition(b"%16d" % number, 0): f"t{number}" for number in range(count)}
    traffic = SimpleNamespace(find=lambda _name: None)
    ctx = SimpleNamespace(partitions=SimpleNamespace(traffic=traffic))
    assert list(share_fetch._count(names, {}, ctx)) == [None] * pauses
