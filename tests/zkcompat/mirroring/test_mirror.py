"""The mirror against a real ZooKeeper."""

import contextlib
import json
import os
import socket
import subprocess
import sys

import pytest
import trio
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_digest_acl

from tests.zkcompat import build
from tests.zkcompat.build import T1
from tests.zkcompat.rig import (
    PATIENCE,
    SHORT_SESSION_MS,
    Source,
    connected,
    differences,
    in_step,
    reached,
    running,
    topics,
)
from trimaran.zkcompat.comparing.verify import ReportedDifference
from trimaran.zkcompat.mirroring.tenure import WrongClusterError
from trimaran.zkcompat.tree.claim import QuorumLeader, TransactionStep
from trimaran.zkcompat.znodes.controller import ControllerEpochZnode, ControllerZnode
from trimaran.zkcompat.znodes.migration import Migration
from trimaran.zkcompat.zookeeper.errors import PathRefusedError, TransactionRefusedError
from trimaran.zkcompat.zookeeper.keeper import Keeper
from trimaran.zkcompat.zookeeper.server_process import start_zookeeper
from trimaran.zkcompat.zookeeper.session_file import (
    SESSION_FILE,
    SavedSession,
    load_session,
    save_session,
)

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]


async def by_hand(keeper, *steps):
    await keeper.transact(list(steps))


async def test_empty_tree_is_filled_and_updated(connect):
    source = Source(build.broker(1), build.broker(2), *topics(3))
    async with running(connect, source) as mirror, connected(connect) as person:
        await in_step(mirror, source)
        assert await differences(person, source) == ()
        source.say(build.remove_topic((2).to_bytes(16, "big")), build.fence(2))
        source.say(build.config(2, "topic-1", "retention.ms", "5"), build.producer_ids(1000))
        await in_step(mirror, source)
        assert await differences(person, source) == ()
        assert await person.children("/brokers/ids") == ["1"]
        assert await person.children("/config/changes") == ["config_change_0000000000"]


async def test_published_state_matches_kafka(connect):
    source = Source(build.broker(1))
    async with running(connect, source) as mirror, connected(connect) as person:
        await in_step(mirror, source)
        migration = await person.read(Migration.PATH)
        assert json.loads(migration.data) == {
            "version": 0,
            "kraft_metadata_offset": source.offset,
            "kraft_controller_id": 1,
            "kraft_metadata_epoch": 1,
            "kraft_controller_epoch": 1,
        }
        controller = await person.read(ControllerZnode.PATH)
        assert controller.owner == mirror.keeper.session_id
        assert ControllerZnode.decode(controller.data).broker_id == 1
        assert (await person.read(ControllerEpochZnode.PATH)).data == b"1"


async def test_idle_batches_move_only_the_published_offset(connect):
    source = Source(build.broker(1), *topics(2))
    async with running(connect, source) as mirror:
        await in_step(mirror, source)
        writes, reconciles = mirror.status.writes, mirror.status.verifications
        source.say()
        await in_step(mirror, source)
        assert mirror.status.published_offset == source.offset
        assert (mirror.status.writes, mirror.status.verifications) == (writes, reconciles)


async def test_controller_znode_follows_quorum_leader(connect):
    source = Source(build.broker(1))
    async with running(connect, source) as mirror, connected(connect) as person:
        await in_step(mirror, source)
        source.feed.lead_by(QuorumLeader(3, 2))
        await reached(mirror, lambda s: s.claims == 2 and s.state == "in step")
        controller = ControllerZnode.decode((await person.read(ControllerZnode.PATH)).data)
        assert (controller.broker_id, controller.kraft_controller_epoch) == (3, 2)
        assert (await person.read(ControllerEpochZnode.PATH)).data == b"2"
        # The tree was known: it is not read again when the leader changes.
        assert mirror.status.comparisons == 1
        assert not Migration.decode((await person.read(Migration.PATH)).data).dirty


async def test_large_changes_are_written_in_bounded_transactions(connect):
    source = Source(build.broker(1))
    async with (
        running(connect, source, batch_operations=50) as mirror,
        connected(connect) as person,
    ):
        await in_step(mirror, source)
        before = mirror.status.transactions
        source.say(*topics(40))
        await in_step(mirror, source)
        assert mirror.status.transactions - before == 40 * 7 // 50 + 1
        assert await differences(person, source) == ()


async def test_second_mirror_is_on_standby(connect):
    source = Source(build.broker(1), *topics(1))
    async with running(connect, source) as first:
        await in_step(first, source)
        async with running(connect, source) as second:
            await reached(second, lambda s: s.state == "standby")
            source.say(build.broker(2))
            await in_step(first, source)
            assert (first.status.claims, second.status.claims) == (1, 0)
        async with running(connect, source) as third:
            await reached(third, lambda s: s.state == "standby")
            await first.keeper.close()
            await in_step(third, source)


async def test_stale_writer_changes_nothing(connect):
    old, new = Source(build.broker(1), *topics(1)), Source(build.broker(1), *topics(2))
    short = {"session_timeout_ms": SHORT_SESSION_MS}
    async with running(connect, old) as first:
        await in_step(first, old)
        # The second has newer metadata, and the first does not write: the first counts as frozen.
        async with running(connect, new, **short) as second, connected(connect) as person:
            await in_step(second, new)
            old.say(build.remove_topic((1).to_bytes(16, "big")))
            await reached(first, lambda s: s.state == "standby")
            assert "Another client wrote the mirror's claim" in first.status.last_problem
            assert await differences(person, new) == ()
            # Brokers belong to the session of the newer claim, which does not wait for the older session to end.
            assert (await person.read("/brokers/ids/1")).owner == second.keeper.session_id
        # The second's session has ended: the first claims again, and its image is shown.
        await in_step(first, old)
        async with connected(connect) as person:
            assert await differences(person, old) == ()
            assert (await person.read(ControllerEpochZnode.PATH)).data == b"3"


async def test_silent_mirror_is_overtaken_before_session_end(connect):
    stuck, live = Source(build.broker(1)), Source(build.broker(1))
    short = {"session_timeout_ms": SHORT_SESSION_MS}
    async with running(connect, stuck) as silent, connected(connect) as person:
        await in_step(silent, stuck)
        async with running(connect, live, **short) as standby:
            await reached(standby, lambda s: s.state == "standby")
            live.say(build.broker(2))
            # The silent one receives no metadata, as if it were cut off from the quorum; its session stays alive.
            await in_step(standby, live)
            assert await differences(person, live) == ()
            assert (await person.read("/brokers/ids/1")).owner == standby.keeper.session_id
            assert silent.keeper.is_connected
            stuck.say(build.broker(2), build.broker(3))
            await reached(silent, lambda s: "Another client" in s.last_problem)


async def test_write_under_past_claim_is_refused_whole(connect):
    source = Source(build.broker(1))
    async with running(connect, source) as mirror, connected(connect) as person:
        await in_step(mirror, source)
        epoch = await person.read(ControllerEpochZnode.PATH)
        with pytest.raises(TransactionRefusedError) as refused:
            await by_hand(
                person,
                TransactionStep("check", ControllerEpochZnode.PATH, version=epoch.version - 1),
                TransactionStep("create", "/brokers/topics/stale"),
            )
        assert refused.value.index == 0
        assert await person.read("/brokers/topics/stale") is None


async def test_published_offset_never_goes_back(connect, monkeypatch):
    """M1: (controller epoch, offset) of all accepted transactions of two mirrors that overtake each other."""
    published = []
    epochs = {}
    transact = Keeper.transact
    # ZooKeeper orders transactions; responses on two connections may arrive in another order.
    one_at_a_time = trio.Lock()

    async def recording(keeper, steps, meanwhile=None):
        async with one_at_a_time:
            await transact(keeper, steps, meanwhile)
            for step in steps:
                if step.path == ControllerEpochZnode.PATH and step.kind == "set":
                    epochs[id(keeper)] = ControllerEpochZnode.decode(step.data).epoch
                    published.append((epochs[id(keeper)], -1))
                elif step.path == Migration.PATH:
                    published.append((epochs[id(keeper)], Migration.decode(step.data).offset))

    monkeypatch.setattr(Keeper, "transact", recording)
    small = {"session_timeout_ms": 2 * SHORT_SESSION_MS, "batch_operations": 5}
    sources = [Source(build.broker(1), *topics(5)) for _ in range(2)]
    async with running(connect, sources[0], **small) as first:
        await in_step(first, sources[0])
        async with running(connect, sources[1], **small) as second:
            for number in range(1, 5):
                # One of the two receives the change immediately and overtakes the other, which notices this when it is
                # fenced.
                ahead, behind = (second, first) if number % 2 else (first, second)
                source = sources[number % 2]
                await reached(ahead, lambda s: s.state == "standby")
                source.say(build.remove_topic(number.to_bytes(16, "big")))
                source.feed.lead_by(QuorumLeader(number, number + 1))
                await in_step(ahead, source)
                sources[1 - number % 2].say(build.remove_topic(number.to_bytes(16, "big")))
                sources[1 - number % 2].feed.lead_by(QuorumLeader(number, number + 1))
                await reached(behind, lambda s: "Another client" in s.last_problem)
            await reached(second, lambda s: s.state == "standby")
    assert published == sorted(published)
    assert published[-1] == (5, sources[0].offset)


async def test_manual_damage_is_repaired_at_next_verify(connect, caplog):
    source = Source(build.broker(1), build.broker(2), *topics(3))
    async with (
        running(connect, source, verify_interval_seconds=0.2) as mirror,
        connected(connect) as person,
    ):
        await in_step(mirror, source)
        repairs = mirror.status.repairs
        await by_hand(
            person,
            TransactionStep("delete", "/brokers/topics/topic-1/partitions/0/state"),
            TransactionStep("set", "/config/topics/topic-2", b"not json"),
            TransactionStep("set", "/brokers/topics/topic-2", b'{"version":9}'),
            TransactionStep("create", "/brokers/topics/extra"),
            TransactionStep("create", "/brokers/topics/extra/child", "\u00e9".encode()),
            TransactionStep("delete", "/brokers/ids/2"),
            TransactionStep("create", "/brokers/ids/2", b"{}"),
            TransactionStep("create", "/brokers/ids/\u00e9", b"{}"),
        )
        again = (
            mirror.status.verifications + 2
        )  # a verification may have been reading when the damage was done
        await reached(mirror, lambda s: s.verifications >= again and s.state == "in step")
        assert mirror.status.repairs > repairs
        mended = [
            record.getMessage() for record in caplog.records if "mended" in record.getMessage()
        ]
        assert any("/config/topics/topic-2" in path for path in mended), mended
        assert await differences(person, source) == ()
        assert (await person.read("/brokers/ids/2")).owner == mirror.keeper.session_id


async def test_deleted_or_forged_broker_is_repaired_at_once(connect):
    """No verification is needed."""
    source = Source(build.broker(1), build.broker(2))
    async with running(connect, source) as mirror, connected(connect) as person:
        await in_step(mirror, source)
        for steps in (
            [TransactionStep("delete", "/brokers/ids/2")],
            [TransactionStep("create", "/brokers/ids/7", b"{}")],
            [
                TransactionStep("delete", "/brokers/ids/1"),
                TransactionStep("delete", "/brokers/ids/2"),
            ],
        ):
            repairs = mirror.status.repairs
            await by_hand(person, *steps)
            await reached(mirror, lambda s, r=repairs: s.repairs > r and s.state == "in step")
            assert await differences(person, source) == ()
        assert mirror.status.verifications == 0


async def test_operation_refused_by_damage_causes_comparison(connect):
    source = Source(build.topic("t", T1), build.partition(T1, 0, [1, 2]))
    async with running(connect, source) as mirror, connected(connect) as person:
        await in_step(mirror, source)
        await by_hand(person, TransactionStep("delete", "/brokers/topics/t/partitions/0/state"))
        source.say(build.change(T1, 0, isr=[2], leader=2))
        await in_step(mirror, source)
        assert mirror.status.repairs == 1
        assert await differences(person, source) == ()


@pytest.mark.parametrize("path", [ControllerEpochZnode.PATH, Migration.PATH])
async def test_manually_changed_claim_is_recreated(connect, path):
    source = Source(build.broker(1), *topics(1))
    async with running(connect, source) as mirror, connected(connect) as person:
        await in_step(mirror, source)
        await by_hand(person, TransactionStep("set", path, b"garbage"))
        source.say(build.remove_topic((1).to_bytes(16, "big")))
        await in_step(mirror, source)
        assert mirror.status.claims == 2
        assert await differences(person, source) == ()


async def test_another_clusters_tree_is_refused_and_left_alone(connect):
    source = Source(build.broker(1))
    async with connected(connect) as person:
        for path in ("/", "/cluster"):
            await person.ensure(path, None)
        await person.ensure("/cluster/id", b'{"version":"1","id":"AnotherCluster0000000w"}')
        with trio.fail_after(PATIENCE), pytest.raises(ExceptionGroup) as raised:
            async with running(connect, source):
                await trio.sleep_forever()
        (error,) = raised.value.exceptions
        assert isinstance(error, WrongClusterError)
        assert "AnotherCluster0000000w" in str(error)
        assert await person.children("/") == ["cluster"]


async def test_every_znode_has_kafkas_acl_from_its_creation(connect):
    own = make_digest_acl("mirror", "secret", all=True)
    auth = [("digest", "mirror:secret")]
    threads = build.config(4, "1", "log.cleaner.threads", "2")
    source = Source(build.broker(1), *topics(1), threads)
    async with (
        running(connect, source, secured=True, auth=auth) as mirror,
        connected(connect) as stranger,
        connected(connect, auth=auth, secured=True) as owner,
    ):
        await in_step(mirror, source)
        assert await differences(owner, source) == ()
        for path in await owner.read_tree(["/"], []):
            granted, _ = await owner._answer(owner._client.get_acls_async(path))
            sensitive = path.startswith(("/config/users", "/config/brokers", "/delegation_token/t"))
            if path == "/consumers":
                assert granted == OPEN_ACL_UNSAFE
            elif sensitive and path != "/delegation_token/token_changes":
                assert granted == [own], path
            else:
                assert granted == [own, *READ_ACL_UNSAFE], path
        assert await stranger.read("/brokers/ids/1") is not None
        with pytest.raises(PathRefusedError, match="NoAuth"):
            await stranger.read("/config/brokers/1")
        with pytest.raises(TransactionRefusedError, match="NoAuth"):
            await by_hand(stranger, TransactionStep("set", "/brokers/topics/topic-1", b"{}"))


async def test_verify_reports_excessive_rights_of_others(connect):
    auth = [("digest", "mirror:secret")]
    source = Source(build.broker(1), *topics(1), build.config(4, "1", "log.cleaner.threads", "2"))
    async with running(connect, source) as mirror:  # created without ACLs
        await in_step(mirror, source)
        async with connected(connect, auth=auth, secured=True) as person:
            found = {d.path: d for d in await differences(person, source)}
    assert found["/config/brokers/1"] == ReportedDifference(
        "acl", "/config/brokers/1", None, "others may read"
    )
    assert found["/brokers/ids/1"] == ReportedDifference(
        "acl", "/brokers/ids/1", None, "others may write"
    )
    assert {difference.kind for difference in found.values()} == {"acl"}
    assert "/consumers" not in found


async def test_lost_session_is_replaced_and_tree_repaired(connect):
    source = Source(build.broker(1), *topics(2))
    async with running(connect, source) as mirror, connected(connect) as person:
        await in_step(mirror, source)
        before = mirror.keeper.session_id
        client_id = mirror.keeper._client.client_id
        with trio.fail_after(PATIENCE):
            # The mirror may resume its session before the close arrives: close it again.
            while mirror.keeper.session_id in (0, before):
                await _expire(client_id, connect)
        source.say(build.fence(1), build.broker(2))
        await reached(mirror, lambda s: s.claims >= 2)
        await in_step(mirror, source)
        assert await differences(person, source) == ()


async def test_own_session_is_not_waited_for(connect, caplog):
    """A false response makes the client begin another session, while the servers keep the first, and its
    `/controller`.
    """
    source = Source(build.broker(1), *topics(1))
    async with running(connect, source) as mirror, connected(connect) as person:
        await in_step(mirror, source)
        before = mirror.keeper.session_id
        client = mirror.keeper._client
        client._session_id, client._session_passwd = None, bytes(16)
        client._connection._socket.shutdown(socket.SHUT_RDWR)
        source.say(build.broker(2))
        await reached(mirror, lambda s: s.claims >= 2)
        await in_step(mirror, source)
        assert (await person.read("/controller")).owner == mirror.keeper.session_id != before
        assert await differences(person, source) == ()
    assert "taking over" not in caplog.text


async def _expire(client_id, connect):
    """Ends the session as its server would: its id and password suffice to close it."""
    from kazoo.client import KazooClient
    from kazoo.exceptions import KazooException

    client = KazooClient(connect.partition("/")[0], client_id=client_id, timeout=1.5)

    def close():
        try:
            with contextlib.suppress(KazooException):  # the mirror resumed the session
                client.start(10)
        finally:
            client.stop()
            client.close()

    await trio.to_thread.run_sync(close)


async def test_comparison_survives_death_of_zookeeper(own_zookeeper, tmp_path):
    source = Source(build.broker(1), *topics(400, partitions=4))
    async with running(own_zookeeper.connect, source, batch_operations=20) as mirror:
        await reached(mirror, lambda s: s.state == "comparing")
        with trio.fail_after(PATIENCE):
            while mirror.status.transactions < 20:
                await trio.lowlevel.checkpoint()
        own_zookeeper.kill()
        assert mirror.status.published_offset == -1
        source.say(*(build.remove_topic(n.to_bytes(16, "big")) for n in range(1, 200)))
        again = await trio.to_thread.run_sync(
            lambda: start_zookeeper(own_zookeeper.data_dir, own_zookeeper.port, tick_ms=100)
        )
        try:
            await in_step(mirror, source)
            async with connected(again.connect) as person:
                assert await differences(person, source) == ()
                assert not Migration.decode((await person.read(Migration.PATH)).data).dirty
        finally:
            again.kill()


async def test_zookeeper_without_data_is_refilled(own_zookeeper, tmp_path):
    source = Source(build.broker(1), *topics(3))
    short = {"session_timeout_ms": SHORT_SESSION_MS}
    async with running(own_zookeeper.connect, source, **short) as mirror:
        await in_step(mirror, source)
        for _ in range(50):  # a zxid far beyond those of a new server
            source.say()
            await in_step(mirror, source)
        own_zookeeper.kill()
        claims = mirror.status.claims
        again = await trio.to_thread.run_sync(
            lambda: start_zookeeper(tmp_path / "empty", own_zookeeper.port, tick_ms=100)
        )
        try:
            await reached(mirror, lambda s: s.claims > claims)
            await in_step(mirror, source)
            async with connected(again.connect) as person:
                assert await differences(person, source) == ()
        finally:
            again.kill()


async def test_frozen_zookeeper_causes_doubt_then_repair(own_zookeeper):
    import signal

    source = Source(build.broker(1), *topics(3))
    short = {"session_timeout_ms": SHORT_SESSION_MS}
    async with running(own_zookeeper.connect, source, **short) as mirror:
        await in_step(mirror, source)
        own_zookeeper.kill(signal.SIGSTOP)
        source.say(build.remove_topic((1).to_bytes(16, "big")))
        await reached(mirror, lambda s: "Lost ZooKeeper" in s.last_problem)
        source.say(build.broker(2))
        own_zookeeper.kill(signal.SIGCONT)
        await in_step(mirror, source)
        async with connected(own_zookeeper.connect) as person:
            assert await differences(person, source) == ()


async def test_killed_mirror_resumes_its_session(connect, tmp_path):
    async with connected(connect) as person:
        first = _child(connect, tmp_path)
        assert first.stdout.readline() == b"in step\n"
        broker = await person.read("/brokers/ids/1")
        gone = trio.Event()
        token = trio.lowlevel.current_trio_token()
        person._client.exists("/brokers/ids/1", watch=lambda _: token.run_sync_soon(gone.set))
        first.kill()
        first.wait()
        second = _child(connect, tmp_path)
        try:
            assert second.stdout.readline() == b"in step\n"
            after = await person.read("/brokers/ids/1")
            assert after == broker
            assert not gone.is_set()
            assert (await person.read(ControllerEpochZnode.PATH)).data == b"2"
            assert (await person.read(ControllerZnode.PATH)).owner == broker.owner
        finally:
            second.kill()
            second.wait()
        first.stdout.close()
        second.stdout.close()


def _child(connect, state_dir):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.zkcompat.mirror_process", connect, str(state_dir)],
        stdout=subprocess.PIPE,
    )


def test_session_file_is_private_and_for_one_zookeeper(tmp_path):
    path = str(tmp_path / SESSION_FILE)
    session = SavedSession(0x1234, bytes(range(16)))
    assert load_session(path, "a:1") is None
    save_session(path, "a:1", session)
    assert load_session(path, "a:1") == session
    assert load_session(path, "b:1") is None
    assert os.stat(path).st_mode & 0o077 == 0
    (tmp_path / SESSION_FILE).write_text('{"session_id":"zz"}')
    assert load_session(path, "a:1") is None
