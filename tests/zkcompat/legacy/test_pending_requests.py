import trio

from tests.zkcompat import build
from trimaran.zkcompat.legacy import pending_requests
from trimaran.zkcompat.legacy.pending_requests import NOTE_SECONDS, PendingToolRequests
from trimaran.zkcompat.legacy.requests.admin_requests import RequestKind
from trimaran.zkcompat.legacy.tool_writes import ToolWrite

IMAGE = build.image_of(build.topic("t", build.T1), build.partition(build.T1, 0, [1]))
NEW = ToolWrite(RequestKind.TOPIC, "/brokers/topics/new")


async def test_unknown_topic_is_handled_before_deletion(autojump_clock):
    pending = PendingToolRequests()
    for path in ("/brokers/topics/new/partitions", "/config/topics/new", "/brokers/topics/new"):
        assert pending.spares(path, IMAGE)
    assert list(pending.open) == [NEW]
    pending.settle(NEW, ownerless=True)
    assert not pending.spares("/brokers/topics/new", IMAGE)
    pending.on_watch_event("/brokers/topics/new")  # The request was written again.
    assert pending.spares("/brokers/topics/new", IMAGE)
    pending.settle(NEW)
    assert pending.spares("/brokers/topics/new", IMAGE)


async def test_topic_with_pending_request_is_spared(autojump_clock):
    pending = PendingToolRequests()
    assert not pending.spares("/brokers/topics/t", IMAGE)
    pending.on_watch_event("/brokers/topics/t")
    assert pending.spares("/brokers/topics/t/partitions/1", IMAGE)
    pending.settle(ToolWrite(RequestKind.TOPIC, "/brokers/topics/t"))
    assert not pending.spares("/brokers/topics/t/partitions/1", IMAGE)
    assert not pending.spares("/brokers/ids/1", IMAGE)


async def test_write_during_handling_is_handled_again(autojump_clock):
    """A tool may see the mirror remove its request, and write the next one."""
    pending = PendingToolRequests()
    path = "/admin/preferred_replica_election"
    pending.on_watch_event(path)
    (election,) = pending.open
    pending.begin(election)
    pending.on_watch_event(path)
    pending.settle(election)
    assert list(pending.open) == [election]
    pending.begin(election)
    pending.settle(election)
    assert not pending.open
    pending.on_watch_event(NEW.path)
    pending.begin(NEW)
    pending.on_watch_event(NEW.path)
    pending.settle(NEW, ownerless=True)
    assert pending.spares(NEW.path, IMAGE)


async def test_entity_waits_for_its_note(autojump_clock):
    pending = PendingToolRequests()
    path = "/config/topics/t"
    assert not pending.spares(path, IMAGE)
    pending.on_watch_event(path)
    assert pending.spares(path, IMAGE)
    assert pending.take_unexplained() == []
    await trio.sleep(NOTE_SECONDS * 0.9)
    pending.on_watch_event(path)
    await trio.sleep(NOTE_SECONDS * 0.9)
    assert pending.spares(path, IMAGE)
    await trio.sleep(NOTE_SECONDS)
    assert not pending.spares(path, IMAGE)
    assert pending.take_unexplained() == [path]
    assert pending.take_unexplained() == []


async def test_waiter_wakes_for_events_and_unexplained_writes(autojump_clock):
    pending = PendingToolRequests()
    with trio.move_on_after(3600) as nothing:
        await pending.wait()
    assert nothing.cancelled_caught
    pending.on_watch_event("/config/topics/t")
    pending.spares("/config/topics/t", IMAGE)
    with trio.fail_after(3600):
        await pending.wait()
    pending.on_watch_event("/config/changes/config_change_1")
    with trio.fail_after(3600):
        await pending.wait()


async def test_pending_requests_are_bounded(autojump_clock, monkeypatch):
    monkeypatch.setattr(pending_requests, "WRITES_MAX", 3)
    pending = PendingToolRequests()
    for number in range(10):
        pending.on_watch_event(f"/admin/delete_topics/{number}")
        pending.on_watch_event(f"/config/changes/config_change_{number}")
        pending.on_watch_event(f"/config/topics/{number}")
    assert len(pending.open) == len(pending.notes) == len(pending._written) == 3
