import trio

from tests.zkcompat import build
from trimaran.zkcompat.legacy import pending_requests as desks
from trimaran.zkcompat.legacy.pending_requests import NOTE_SECONDS, Desk
from trimaran.zkcompat.legacy.requests.admin_requests import Kind
from trimaran.zkcompat.legacy.tool_writes import Subject

IMAGE = build.image_of(build.topic("t", build.T1), build.partition(build.T1, 0, [1]))
NEW = Subject(Kind.TOPIC, "/brokers/topics/new")


async def test_an_unknown_topic_is_looked_at_before_it_may_go(autojump_clock):
    desk = Desk()
    for path in ("/brokers/topics/new/partitions", "/config/topics/new", "/brokers/topics/new"):
        assert desk.spares(path, IMAGE)
    assert list(desk.open) == [NEW]
    desk.settle(NEW, stands=True)
    assert not desk.spares("/brokers/topics/new", IMAGE)
    desk.hear("/brokers/topics/new")  # somebody wrote it again
    assert desk.spares("/brokers/topics/new", IMAGE)
    desk.settle(NEW)
    assert desk.spares("/brokers/topics/new", IMAGE)


async def test_a_known_topic_is_left_alone_while_it_is_looked_at(autojump_clock):
    desk = Desk()
    assert not desk.spares("/brokers/topics/t", IMAGE)
    desk.hear("/brokers/topics/t")
    assert desk.spares("/brokers/topics/t/partitions/1", IMAGE)
    desk.settle(Subject(Kind.TOPIC, "/brokers/topics/t"))
    assert not desk.spares("/brokers/topics/t/partitions/1", IMAGE)
    assert not desk.spares("/brokers/ids/1", IMAGE)


async def test_what_is_written_while_it_is_looked_at_is_looked_at_again(autojump_clock):
    """As by a tool that sees the mirror take its request away, and makes the next one."""
    desk = Desk()
    path = "/admin/preferred_replica_election"
    desk.hear(path)
    (election,) = desk.open
    desk.begin(election)
    desk.hear(path)
    desk.settle(election)
    assert list(desk.open) == [election]
    desk.begin(election)
    desk.settle(election)
    assert not desk.open
    desk.hear(NEW.path)
    desk.begin(NEW)
    desk.hear(NEW.path)
    desk.settle(NEW, stands=True)
    assert desk.spares(NEW.path, IMAGE)


async def test_an_entity_waits_for_its_note(autojump_clock):
    desk = Desk()
    path = "/config/topics/t"
    assert not desk.spares(path, IMAGE)
    desk.hear(path)
    assert desk.spares(path, IMAGE)
    assert desk.take_unexplained() == []
    await trio.sleep(NOTE_SECONDS * 0.9)
    desk.hear(path)
    await trio.sleep(NOTE_SECONDS * 0.9)
    assert desk.spares(path, IMAGE)
    await trio.sleep(NOTE_SECONDS)
    assert not desk.spares(path, IMAGE)
    assert desk.take_unexplained() == [path]
    assert desk.take_unexplained() == []


async def test_it_wakes_for_what_is_heard_and_for_what_no_note_explains(autojump_clock):
    desk = Desk()
    with trio.move_on_after(3600) as nothing:
        await desk.wait()
    assert nothing.cancelled_caught
    desk.hear("/config/topics/t")
    desk.spares("/config/topics/t", IMAGE)
    with trio.fail_after(3600):
        await desk.wait()
    desk.hear("/config/changes/config_change_1")
    with trio.fail_after(3600):
        await desk.wait()


async def test_it_is_bounded(autojump_clock, monkeypatch):
    monkeypatch.setattr(desks, "SUBJECTS_MAX", 3)
    desk = Desk()
    for number in range(10):
        desk.hear(f"/admin/delete_topics/{number}")
        desk.hear(f"/config/changes/config_change_{number}")
        desk.hear(f"/config/topics/{number}")
    assert len(desk.open) == len(desk.notes) == len(desk._written) == 3
