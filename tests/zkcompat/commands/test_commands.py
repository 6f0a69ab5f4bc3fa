"""The functions behind the commands, against a real ZooKeeper."""

import json
from dataclasses import replace

import pytest
import trio
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from tests.zkcompat import build
from tests.zkcompat.rig import NEVER, PATIENCE, Source, in_step, running, topics
from trimaran.node.runtime.clock import now_ms
from trimaran.node.runtime.ports import HOST, port_of, reserve
from trimaran.zkcompat.commands.errors import (
    MirrorLockedError,
    ZNodeRefusedError,
    ZooKeeperUnreachableError,
)
from trimaran.zkcompat.commands.mirror_process import _locked
from trimaran.zkcompat.commands.tree_views import SILENCE_MS, TreeEntry, get, status, tree
from trimaran.zkcompat.mirroring import status as reporting
from trimaran.zkcompat.quorum_feed.observer import (
    QuorumUnreachableError,
    find_cluster_id,
    parse_controllers,
)
from trimaran.zkcompat.znodes.controller import ControllerZnode
from trimaran.zkcompat.znodes.mirror_report import MirrorReport


@pytest.fixture
def mirrored(connect):
    """Returns a tree as a mirror left it; its ephemeral znodes are gone."""
    source = Source(build.broker(1), *topics(2))

    async def fill():
        async with running(connect, source) as mirror:
            await in_step(mirror, source)
            with trio.fail_after(PATIENCE):
                while True:  # a mirror reports its state once a second
                    found = await trio.to_thread.run_sync(status, connect)
                    if found.mirror and found.mirror.state == "in step":
                        return found

    return connect, trio.run(fill)


@pytest.mark.zookeeper
@pytest.mark.slow
def test_status_shows_claim_and_offset(mirrored):
    connect, while_running = mirrored
    assert while_running.cluster_id == build.CLUSTER_ID
    assert (while_running.controller_id, while_running.controller_epoch) == (1, 1)
    assert while_running.live_brokers == (1,)
    assert while_running.topics == 2
    assert while_running.published_offset == 6
    assert while_running.mirror_alive
    assert while_running.quorum_alive
    assert while_running.healthy
    assert while_running.lag_records == 0
    assert while_running.standbys == ()
    after = status(connect)
    assert not after.mirror_alive
    assert after.controller_id is None
    assert after.live_brokers == ()


@pytest.mark.zookeeper
@pytest.mark.slow
async def test_status_distinguishes_silent_quorum_from_silent_mirror(connect):
    source = Source(build.broker(1), *topics(1))
    source.feed.heard_ms -= 2 * SILENCE_MS
    async with running(connect, source) as mirror:
        await in_step(mirror, source)
        with trio.fail_after(PATIENCE):
            found = await trio.to_thread.run_sync(status, connect)
            while found.mirror is None:
                found = await trio.to_thread.run_sync(status, connect)
    assert (found.mirror_alive, found.quorum_alive, found.healthy) == (True, False, False)
    later = replace(found, asked_ms=found.asked_ms + SILENCE_MS)
    assert not later.mirror_alive


@pytest.mark.zookeeper
@pytest.mark.slow
async def test_mirror_in_step_has_reported_it(connect, monkeypatch):
    """This holds regardless of the interval at which it checks for news."""
    monkeypatch.setattr(reporting, "PAUSE_SECONDS", NEVER)
    source = Source(build.broker(1), *topics(1))
    async with running(connect, source) as mirror:
        await in_step(mirror, source)
        with trio.fail_after(PATIENCE):
            found = await trio.to_thread.run_sync(status, connect)
            while found.mirror is None or found.mirror.state != "in step":
                found = await trio.to_thread.run_sync(status, connect)
    assert found.mirror_alive


@pytest.mark.zookeeper
@pytest.mark.slow
def test_tree_and_znode_are_shown(mirrored):
    connect, _ = mirrored
    entries = tree(connect, "/config/topics")
    assert [entry.path for entry in entries] == [
        "/config/topics",
        "/config/topics/topic-1",
        "/config/topics/topic-2",
    ]
    times = (entries[1].created_ms, entries[1].modified_ms)
    assert 0 < times[0] <= times[1]
    data = '{"version":1,"config":{}}'
    assert entries[1] == TreeEntry("/config/topics/topic-1", data, False, 0, *times)
    assert get(connect, "/config/topics/topic-1") == entries[1]
    assert get(connect, "/config/topics").text is None
    assert get(connect, "/nowhere") is None
    everything = [entry.path for entry in tree(connect)]
    assert everything == sorted(everything)
    assert {"/cluster/id", "/migration", "/controller_epoch"} <= set(everything)
    assert len(tree(connect, entries_max=3)) == 3


REPORT = MirrorReport("host", 1, "in step", 0, 9, 9, 0, 0, 1, 0, 0, [], "")


@pytest.fixture
def outsider(connect):
    """Returns a user with a ZooKeeper shell, in an existing chroot."""
    server, _, chroot = connect.partition("/")
    client = KazooClient(server)
    client.start()
    client.ensure_path(chroot)
    client.chroot = f"/{chroot}"
    for path in ("/brokers/ids", "/brokers/topics", MirrorReport.path(0).rpartition("/")[0]):
        client.ensure_path(path)
    yield client
    client.stop()
    client.close()


@pytest.mark.zookeeper
def test_any_broker_name_is_shown_in_status(connect, outsider):
    for name in ("7", "9" * 5000, "٣", "by-hand", "-1"):
        outsider.create(f"/brokers/ids/{name}")
    assert status(connect).live_brokers == (7,)


@pytest.mark.zookeeper
def test_foreign_report_is_ignored(connect, outsider):
    told = replace(REPORT, told_ms=now_ms(), quorum_heard_ms=now_ms())
    session = outsider.client_id[0]
    outsider.create(MirrorReport.path(7), told.encode(), ephemeral=True)
    outsider.create(MirrorReport.path(8), told.encode())
    assert status(connect).mirror is None
    own = MirrorReport.path(session)
    outsider.create(own, told.encode(), ephemeral=True)
    assert status(connect).healthy
    outsider.set(own, replace(told, lag_ms=10**400).encode())
    assert status(connect).mirror is None
    later = told.told_ms + 2 * SILENCE_MS
    outsider.set(own, replace(told, told_ms=later, quorum_heard_ms=later).encode())
    found = status(connect)
    assert (found.mirror_alive, found.quorum_alive) == (False, False)


@pytest.mark.zookeeper
def test_mirror_with_the_claim_leads(connect, outsider):
    """Another mirror that was frozen may report that it leads, even later."""
    told = replace(REPORT, told_ms=now_ms())
    outsider.create(MirrorReport.path(outsider.client_id[0]), told.encode(), ephemeral=True)
    outsider.create(ControllerZnode.PATH, ControllerZnode(1, 0, 1).encode(), ephemeral=True)
    frozen = KazooClient(connect)
    frozen.start()
    try:
        late = replace(told, host="frozen", told_ms=told.told_ms + 1)
        frozen.create(MirrorReport.path(frozen.client_id[0]), late.encode(), ephemeral=True)
        assert status(connect).mirror.host == "host"
        outsider.delete(ControllerZnode.PATH)
        assert status(connect).mirror.host == "frozen"
    finally:
        frozen.stop()
        frozen.close()


@pytest.mark.zookeeper
def test_unreadable_znodes_are_named(connect, outsider):
    lock = [make_digest_acl("owner", "secret", all=True)]
    outsider.create("/locked", b"x", acl=lock)
    with pytest.raises(ZNodeRefusedError, match="/locked: NoAuth"):
        get(connect, "/locked")
    (entry,) = tree(connect, "/locked")
    assert (entry.text, entry.refusal) == (None, "NoAuth")
    outsider.set_acls("/brokers/topics", lock)
    found = status(connect)
    assert (found.unreadable, found.topics) == (("/brokers/topics",), 0)


@pytest.mark.zookeeper
def test_large_tree_shows_its_upper_part(connect, outsider):
    for number in range(50):
        outsider.create(f"/brokers/topics/t{number}")
    found = [entry.path for entry in tree(connect, entries_max=10)]
    assert len(found) == 10
    assert {"/", "/brokers", "/brokers/ids", "/brokers/topics", "/trimaran"} <= set(found)


@pytest.fixture
def nobody():
    """Returns an address without a listener."""
    with reserve() as held:
        yield HOST, port_of(held)


@pytest.mark.slow
def test_missing_zookeeper_is_reported(monkeypatch, nobody):
    monkeypatch.setattr("trimaran.zkcompat.commands.session.CONNECT_SECONDS", 0.3)
    with pytest.raises(ZooKeeperUnreachableError, match="no ZooKeeper at 127"):
        status(f"{nobody[0]}:{nobody[1]}")


async def test_missing_quorum_is_reported(autojump_clock, nobody):
    with pytest.raises(QuorumUnreachableError, match="no controller answers"):
        await find_cluster_id([nobody], 1.0)


@pytest.mark.parametrize(
    "text", ["", "localhost", "localhost:x", ":9093", "a:0", "a:70000", "a:1,b"]
)
def test_wrong_bootstrap_is_named(text):
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_controllers(text)


def test_bootstrap_list_is_parsed():
    assert parse_controllers("a:1, [::1]:2,") == [("a", 1), ("::1", 2)]


def test_one_mirror_per_state_directory(tmp_path):
    with (
        _locked(tmp_path),
        pytest.raises(MirrorLockedError, match="another mirror"),
        _locked(tmp_path),
    ):
        pass
    with _locked(tmp_path):
        pass


def test_report_names_unknown_records_if_it_can():
    told = replace(REPORT, unknown="1 record of a later Kafka (type 29 version 0 at offset 4)")
    assert MirrorReport.decode(told.encode()).unknown == told.unknown
    members = json.loads(REPORT.encode())
    del members["unknown"]
    assert MirrorReport.decode(json.dumps(members).encode()).unknown == ""
