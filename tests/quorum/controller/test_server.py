"""Real controllers over sockets: the life of brokers, topics, fail-over, bad input."""

from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
import trio
import trio.lowlevel
import trio.testing

from tests.cluster.in_process import Images, cluster, connected_to
from tests.cluster.nodes import CLUSTER_ID, SECONDS
from tests.quorum.config_of import config_of
from tests.quorum.metadata.build import features, uid
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.meta_properties import MetaProperties, MetaPropertiesError
from trimaran.node.replicated.state_machine import Result
from trimaran.quorum.controller.server import _advertised, _settings, run_controller
from trimaran.quorum.formatting.storage import BOOTSTRAP, format_directories, format_paths
from trimaran.quorum.raft.types import OffsetAndEpoch
from trimaran.quorum.raft_log.snapshot_format import encode_snapshot
from trimaran.quorum.raft_log.supported_levels import MetadataTooNew
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from trimaran.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from trimaran.wire.records.features import FeatureLevelRecord
from trimaran.wire.records.metadata import encode_metadata_record
from trimaran.wire.records.misc import NoOpRecord
from trimaran.wire.transport.requests.calls import ConnectionInfo


@pytest.mark.parametrize(("configured", "advertised"), [(0, 4711), (9093, 9093)])
def test_advertised_port_is_configured_or_bound_one(configured, advertised):
    config = config_of(advertised_listeners=f"CONTROLLER://front.example:{configured}")
    listening = SimpleNamespace(name="CONTROLLER", address=("127.0.0.1", 4711))
    (endpoint,) = _advertised(config, [listening])
    assert (endpoint.host, endpoint.port) == ("front.example", advertised)


@pytest.mark.parametrize(("host", "advertised"), [("front.example", "front.example"), ("", "here")])
def test_unconfigured_host_is_the_machines_name(monkeypatch, host, advertised):
    monkeypatch.setattr("socket.getfqdn", lambda: "here")
    config = config_of(listeners=f"CONTROLLER://{host}:9093")
    listening = SimpleNamespace(name="CONTROLLER", address=("127.0.0.1", 9093))
    assert [endpoint.host for endpoint in _advertised(config, [listening])] == [advertised]


@pytest.mark.parametrize(
    ("keys", "balance", "token_sweep"),
    [
        ({}, 60, 0.0),
        ({"auto_leader_rebalance_enable": "false"}, 0.0, 0.0),
        ({"delegation_token_secret_key": "k"}, 60, 40.0),
    ],
)
def test_times_follow_the_configuration(keys, balance, token_sweep):
    config = config_of(
        broker_session_timeout_ms=10_000,
        metadata_max_idle_interval_ms=20_000,
        unclean_leader_election_interval_ms=30_000,
        delegation_token_expiry_check_interval_ms=40_000,
        leader_imbalance_check_interval_seconds=60,
        **keys,
    )
    directory = SimpleNamespace(meta_properties=SimpleNamespace(cluster_id=CLUSTER_ID))
    found = _settings(config, directory, [])
    assert (found.session, found.idle, found.unclean) == (10.0, 20.0, 30.0)
    assert (found.balance, found.token_sweep) == (balance, token_sweep)


def creation(*names, partitions=2, factor=1, **more):
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=factor,
            assignments=[],
            configs=[],
        )
        for name in names
    ]
    return CreateTopicsRequest(topics=topics, **more)


async def test_a_broker_joins_and_leads_a_topic(tmp_path):
    async with cluster(tmp_path, brokers=0) as nodes:
        active = await nodes.active()
        async with connected_to(active) as connection:
            brokers = [
                nodes.scripted_broker(connection, 1),
                nodes.scripted_broker(connection, 2),
            ]
            for broker in brokers:
                assert await broker.register() == 0
                assert (await broker.beat(offset=0)).is_fenced
                assert not (await broker.beat()).is_fenced
            response = await connection.call(creation("t", factor=2), timeout=SECONDS)
            assert response.topics[0].error_code == 0
            topic = active.loader.image.topics.by_name["t"]  # committed before it was answered
            assert topic.id == response.topics[0].topic_id
            assert [sorted(p.isr) for p in topic.partitions.values()] == [[1, 2], [1, 2]]
            leader = brokers[topic.partitions[0].leader - 1]
            data = AlterPartitionRequestPartitionData(
                partition_index=0,
                leader_epoch=0,
                new_isr_with_epochs=[BrokerState(broker_id=leader.id, broker_epoch=leader.epoch)],
                partition_epoch=0,
            )
            request = AlterPartitionRequest(
                broker_id=leader.id,
                broker_epoch=leader.epoch,
                topics=[AlterPartitionRequestTopicData(topic_id=topic.id, partitions=[data])],
            )
            answer = (await connection.call(request, timeout=SECONDS)).topics[0].partitions[0]
            assert (answer.error_code, answer.isr, answer.partition_epoch) == (0, [leader.id], 1)
            again = (await connection.call(request, timeout=SECONDS)).topics[0].partitions[0]
            assert again.error_code == ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.slow
async def test_restarted_controller_keeps_all_metadata(tmp_path):
    async with cluster(tmp_path, brokers=0) as nodes:
        async with connected_to(await nodes.active()) as connection:
            one = nodes.scripted_broker(connection, 1)
            await one.join()
            await connection.call(creation("t"), timeout=SECONDS)
        before = nodes.controllers[1].loader.image
        await nodes.stop(1)
        await nodes.start_controller(1)
        after = (await nodes.active()).loader.image
        assert after.topics == before.topics
        assert after.cluster.brokers == before.cluster.brokers
        assert after.provenance.offset > before.provenance.offset


async def test_dead_broker_is_fenced_and_successor_admitted(tmp_path):
    """The socket closes and its port refuses, although the lease of 9 s has just begun."""
    async with cluster(tmp_path, brokers=0) as nodes:
        active = await nodes.active()
        images = Images(active)
        async with connected_to(active) as connection:
            one = nodes.scripted_broker(connection, 1)
            await one.join()
        one.socket.close()
        image = await images.wait_for(lambda image: image.cluster.brokers[1].fenced)
        async with connected_to(active) as connection:
            successor = nodes.scripted_broker(connection, 1, incarnation=1)
            await successor.join()
            assert successor.epoch > image.cluster.brokers[1].epoch
            assert (await one_beat(connection, one)).error_code == ErrorCode.STALE_BROKER_EPOCH


async def one_beat(connection, broker):
    broker.connection = connection
    return await broker.beat()


async def test_a_broker_that_still_listens_keeps_its_lease(tmp_path):
    async with cluster(tmp_path, brokers=0) as nodes:
        active = await nodes.active()
        async with connected_to(active) as connection:
            one = nodes.scripted_broker(connection, 1)
            await one.join()
        active_controller = active.context.controller.active()
        with trio.fail_after(SECONDS):
            while not active_controller.leases.get(1, one.epoch).disconnected:
                await trio.lowlevel.checkpoint()
        async with connected_to(active) as connection:
            other = nodes.scripted_broker(connection, 1, incarnation=1)  # at another address
            assert await other.register() == ErrorCode.DUPLICATE_BROKER_REGISTRATION
            assert not (await one_beat(connection, one)).is_fenced


async def test_process_at_same_address_replaces_broker(tmp_path):
    """A broker that restarts so quickly that it listens before the first probe."""
    async with cluster(tmp_path, brokers=0) as nodes:
        active = await nodes.active()
        async with connected_to(active) as connection:
            one = nodes.scripted_broker(connection, 1)
            await one.join()
            other = nodes.scripted_broker(connection, 1, incarnation=1)
            other.port = one.port
            assert (
                await other.register() == ErrorCode.DUPLICATE_BROKER_REGISTRATION
            )  # one broker is connected
        active_controller = active.context.controller.active()
        with trio.fail_after(SECONDS):
            while not active_controller.leases.get(1, one.epoch).disconnected:
                await trio.lowlevel.checkpoint()
        async with connected_to(active) as connection:
            other.connection = connection
            assert await other.register() == 0


@pytest.mark.slow
async def test_silent_broker_is_fenced_at_session_end(tmp_path):
    async with cluster(tmp_path, brokers=0, broker_session_timeout_ms=300) as nodes:
        active = await nodes.active()
        images = Images(active)
        async with connected_to(active) as connection:
            one = nodes.scripted_broker(connection, 1)
            begun = trio.current_time()
            await one.join()
            await images.wait_for(lambda image: image.cluster.brokers[1].fenced)
            assert trio.current_time() - begun >= 0.29
            assert (await one.beat(want_fence=True)).is_fenced


@asynccontextmanager
async def joined_broker(tmp_path):
    """Returns a broker that has joined the one controller, and the controller's leases."""
    async with cluster(tmp_path, brokers=0) as nodes:
        active = await nodes.active()
        async with connected_to(active) as connection:
            one = nodes.scripted_broker(connection, 1)
            await one.join()
            yield one, active.context.controller.active().leases


async def test_blocked_controller_first_reads_waiting_heartbeats(tmp_path, mock_clock):
    mock_clock.rate = 1.0
    async with joined_broker(tmp_path) as (one, leases):
        lease = leases.get(1, one.epoch)
        # The controller was stopped, for example on a suspended laptop, for longer than a session of nine seconds.
        mock_clock.jump(30.0)
        assert not (await one.beat()).is_fenced
        assert leases.get(1, one.epoch) is lease


async def test_blocked_controller_keeps_lease_that_ends_next(tmp_path, mock_clock):
    mock_clock.rate = 1.0
    async with joined_broker(tmp_path) as (one, leases):
        for _ in range(2):  # the second check finds this lease, and waits for its end
            assert not (await one.beat()).is_fenced
            mock_clock.jump(5.0)
            await trio.testing.wait_all_tasks_blocked(0.01)
        lease = leases.get(1, one.epoch)
        mock_clock.jump(30.0)
        assert not (await one.beat()).is_fenced
        assert leases.get(1, one.epoch) is lease


async def test_stopping_broker_waits_until_all_have_applied(tmp_path):
    async with cluster(tmp_path, brokers=0) as nodes:
        active = await nodes.active()
        async with connected_to(active) as connection:
            brokers = {i: nodes.scripted_broker(connection, i) for i in (1, 2)}
            for broker in brokers.values():
                await broker.join()
            await connection.call(creation("t", factor=2), timeout=SECONDS)
            await brokers[2].beat(offset=active.loader.image.provenance.offset)
            answer = await brokers[1].beat(want_shut_down=True)
            assert not answer.should_shut_down
            partitions = active.loader.image.topics.by_name["t"].partitions
            assert [p.leader for p in partitions.values()] == [2, 2]
            assert not (await brokers[1].beat(want_shut_down=True, offset=0)).is_fenced
            await brokers[2].beat()  # now all brokers have applied that 2 leads
            answer = await brokers[1].beat(want_shut_down=True)
            assert (answer.should_shut_down, answer.is_fenced) == (True, True)
            back = nodes.scripted_broker(connection, 1, incarnation=1)
            await back.join()


# --- a quorum


@pytest.mark.slow
async def test_new_active_controller_continues_for_predecessor(tmp_path):
    async with cluster(tmp_path, controllers=3, brokers=0) as nodes:
        first = await nodes.active()
        async with connected_to(first) as connection:
            one = nodes.scripted_broker(connection, 1)
            await one.join()
            await connection.call(creation("t"), timeout=SECONDS)
        await nodes.stop(first.node_id)
        second = await nodes.active()
        assert "t" in second.loader.image.topics.by_name
        async with connected_to(second) as connection:
            assert not (await one_beat(connection, one)).is_fenced
            assert (await connection.call(creation("u"), timeout=SECONDS)).topics[0].error_code == 0
            assert one.epoch == second.loader.image.cluster.brokers[1].epoch


async def test_level_counts_once_it_is_written(tmp_path):
    """The next decision may need it, though neither it nor earlier records are committed yet."""
    format_paths([tmp_path / "1"], CLUSTER_ID, 1, features={"metadata.version": 29})
    async with cluster(tmp_path, brokers=0) as nodes:
        running = await nodes.active()
        controller, node = running.context.controller, running.context.node
        assert node.metadata_version == 29
        active = controller.active()
        before = active.submit(active.write(Result([NoOpRecord()], None)))
        after = active.submit(active.write(Result([features(30)], None)))
        assert node.metadata_version == 30
        await before.wait()
        assert node.metadata_version == 30
        await after.wait()
        assert node.metadata_version == 30


# --- directories of others


async def test_directory_of_another_node_is_refused(tmp_path):
    config = config_of(log_dirs=tmp_path)
    MetaProperties(CLUSTER_ID, 2, uid(1)).save(tmp_path)
    with pytest.raises(MetaPropertiesError, match="node"):
        await run_controller(config)
    LogDirectory(tmp_path).close(broker_epoch=None)  # the lock was released


async def test_a_directory_that_is_not_formatted_is_refused(tmp_path):
    with pytest.raises(MetaPropertiesError, match="not formatted"):
        await run_controller(config_of(log_dirs=tmp_path))


async def test_directory_of_later_level_is_refused_untouched(tmp_path):
    config = config_of(log_dirs=tmp_path)
    format_directories(config, CLUSTER_ID)
    later = FeatureLevelRecord(name="metadata.version", feature_level=34)
    encoded = [encode_metadata_record(later, 0)]
    data = encode_snapshot(OffsetAndEpoch(0, 0), encoded, appended_at_ms=1, now_ms=1)
    (tmp_path / BOOTSTRAP).write_bytes(b"".join(data))
    LogDirectory(tmp_path).close(broker_epoch=42)
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    with pytest.raises(MetadataTooNew, match=r"34 at offset 1 .* up to 33 \(4\.4-IV2\)"):
        await run_controller(config)
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")} == before


async def test_inactive_controller_prepares_to_lead(tmp_path, monkeypatch):
    """The index of an inactive controller has a topic soon after its image has it."""
    monkeypatch.setattr("trimaran.quorum.controller.tasks.standby.POLL_SECONDS", 0.01)
    async with cluster(tmp_path, controllers=3, brokers=0) as nodes:
        active = await nodes.active()
        async with connected_to(active) as connection:
            await nodes.scripted_broker(connection, 1).join()
            await connection.call(creation("t"), timeout=SECONDS)
        for controller in nodes.controllers.values():
            if controller is not active:
                await Images(controller).wait_for(lambda image: "t" in image.topics.by_name)
                index = controller.context.controller._standby._index
                with trio.fail_after(SECONDS):
                    while index.topics is not controller.loader.image.topics:  # noqa: ASYNC110 - nobody is told
                        await trio.sleep(0.01)
                assert len(index.in_sync(1)) == 2


async def test_connection_keeps_one_callback_per_broker(
    tmp_path,
):
    """This holds however often the heartbeats alternate between two connections."""
    async with cluster(tmp_path, brokers=0) as nodes:
        active = await nodes.active()
        controller = active.context.controller
        first, second = (ConnectionInfo(i, "C", ("h", i), ("h", 0)) for i in (1, 2))
        async with connected_to(active) as connection:
            one = nodes.scripted_broker(connection, 1)
            await one.join()
            for _ in range(10):
                controller.watch(first, 1, one.epoch)
                controller.watch(second, 1, one.epoch)
            assert [len(info._callbacks) for info in (first, second)] == [1, 1]
            lease = controller.active().leases.get(1, one.epoch)
            first.mark_closed()
            assert not lease.disconnected
            second.mark_closed()
            assert lease.disconnected
