"""A slot's names, its check of the leader epoch, its attachment, and the results that a session does not know."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from trimaran.broker.fetching.slots import Found, Slot, is_news, key_of
from trimaran.broker.partitions.watchers import Watchers
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicIdPartition, TopicPartition
from trimaran.wire.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic

E = ErrorCode
ID = b"i" * 16


def slot_of(reader=None, *, topic="t", topic_id=bytes(16), known=None, upto_end=False, **wanted):
    named = FetchTopic(topic=topic, topic_id=topic_id, partitions=[])
    fields = {"partition": 3, "fetch_offset": 5, "partition_max_bytes": 7, **wanted}
    return Slot(reader, named, FetchPartition(**fields), known, upto_end=upto_end)


def replica(epoch=4, *, deleted=False, name="named"):
    return SimpleNamespace(
        topic_partition=TopicPartition(name, 3),
        state=SimpleNamespace(leader_epoch=epoch),
        deleted=deleted,
        watchers=Watchers(),
    )


class Named:
    """The partitions of a broker with one topic id; `hosted` returns a replica, and its arguments are kept."""

    def __init__(self):
        self.asked = []
        self.replica = replica()

    def topic_name(self, topic_id):
        if topic_id != ID:
            raise KafkaError(E.UNKNOWN_TOPIC_ID)
        return "of id"

    def hosted(self, key, leader_epoch):
        self.asked.append((key, leader_epoch))
        return self.replica


@pytest.mark.parametrize("kind", [FetchTopic, ForgottenTopic])
def test_key_has_the_id_if_there_is_one(kind):
    by_name = kind(topic="t", topic_id=bytes(16), partitions=[])
    by_id = kind(topic="", topic_id=ID, partitions=[])
    assert key_of(by_name, 2) == TopicPartition("t", 2)
    assert isinstance(key_of(by_name, 2), TopicPartition)
    assert key_of(by_id, 2) == TopicIdPartition(ID, 2)
    assert isinstance(key_of(by_id, 2), TopicIdPartition)


def test_slot_has_the_fields_of_its_request():
    slot = slot_of(
        "reader",
        topic_id=ID,
        current_leader_epoch=8,
        last_fetched_epoch=9,
        log_start_offset=10,
        upto_end=True,
    )
    assert {name: getattr(slot, name) for name in (*Slot.__slots__, "reader")} == {
        "attached_to": None,
        "fetch_offset": 5,
        "index": 3,
        "known": None,
        "last_fetched_epoch": 9,
        "leader_epoch": 8,
        "log_start_offset": 10,
        "max_bytes": 7,
        "reader": "reader",
        "seen_upto": -1,
        "sent_log_start": -1,
        "sent_watermark": -1,
        "topic": "t",
        "topic_id": ID,
        "upto_end": True,
    }


def test_slot_is_named_by_replica_then_request():
    assert slot_of(known=replica()).named_in(Named()) == ("named", 3)
    assert slot_of(known=replica(deleted=True)).named_in(Named()) == ("t", 3)
    assert slot_of().named_in(Named()) == ("t", 3)
    assert slot_of(topic="", topic_id=ID).named_in(Named()) == ("of id", 3)
    assert slot_of(topic="", topic_id=ID, known=replica()).named_in(Named()) == ("named", 3)
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_ID"):
        slot_of(topic="", topic_id=b"?" * 16).named_in(Named())


@pytest.mark.parametrize("known", [None, replica(deleted=True)])
def test_replica_is_found_again_if_deleted(known):
    partitions = Named()
    slot = slot_of(known=known, current_leader_epoch=2)
    assert slot.partition(partitions) is partitions.replica
    assert slot.known is partitions.replica
    assert partitions.asked == [(("t", 3), 2)]


@pytest.mark.parametrize(
    ("of_request", "code"),
    [
        (-1, None),
        (0, E.FENCED_LEADER_EPOCH),
        (3, E.FENCED_LEADER_EPOCH),
        (4, None),
        (5, E.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_known_replica_must_be_in_requested_epoch(of_request, code):
    partitions, known = Named(), replica(4)
    slot = slot_of(known=known, current_leader_epoch=of_request)
    if code is None:
        assert slot.partition(partitions) is known
    else:
        with pytest.raises(KafkaError) as caught:
            slot.partition(partitions)
        assert caught.value.code is code
    assert partitions.asked == []


def test_first_epoch_is_checked_like_others():
    with pytest.raises(KafkaError, match="UNKNOWN_LEADER_EPOCH"):
        slot_of(known=replica(-1), current_leader_epoch=0).partition(Named())


class Changes:
    """A reader that keeps its calls."""

    def __init__(self):
        self.calls = []

    def data_changed(self, interest):
        self.calls.append(("data", interest.index))

    def watermark_changed(self, interest):
        self.calls.append(("watermark", interest.index))


@pytest.mark.parametrize(
    ("upto_end", "of_end", "of_watermark"),
    [(False, [], [("data", 3)]), (True, [("data", 3)], [("watermark", 3)])],
)
def test_attached_slot_is_notified_of_its_changes(upto_end, of_end, of_watermark):
    reader, held = Changes(), replica()
    slot = slot_of(reader, upto_end=upto_end)
    slot.attach(held)
    slot.attach(held)
    for change, expected in (
        (held.watchers.end_moved, of_end),
        (held.watchers.watermark_moved, of_watermark),
        (held.watchers.notify_all, [("data", 3)]),
    ):
        reader.calls.clear()
        change()
        assert reader.calls == expected


def test_slot_is_attached_to_one_replica_only():
    reader, first, second = Changes(), replica(), replica()
    slot = slot_of(reader)
    slot.detach()
    slot.attach(first)
    slot.attach(second)
    assert slot.attached_to is second
    first.watchers.notify_all()
    assert reader.calls == []
    second.watchers.notify_all()
    assert reader.calls == [("data", 3)]
    slot.detach()
    second.watchers.notify_all()
    assert (slot.attached_to, reader.calls) == (None, [("data", 3)])


def test_all_readers_are_notified_in_order():
    """Readers up to the watermark come first, each group in the order of its arrival."""
    reader, held = Changes(), replica()
    for index, upto_end in ((1, True), (2, False), (3, True), (4, False)):
        slot_of(reader, partition=index, upto_end=upto_end).attach(held)
    held.watchers.notify_all()
    assert reader.calls == [("data", index) for index in (2, 4, 1, 3)]
    reader.calls.clear()
    held.watchers.watermark_moved()
    assert reader.calls == [("data", 2), ("data", 4), ("watermark", 1), ("watermark", 3)]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, False),
        ({"size": 1}, True),
        ({"urgent": True}, True),
        ({"again": True}, False),
        ({"watermark": 7}, True),
        ({"watermark": 9}, True),
        ({"log_start_offset": 1}, True),
        ({"log_start_offset": 3}, True),
    ],
)
def test_changes_unknown_to_session_are_news(changes, expected):
    slot = slot_of()
    slot.sent_watermark, slot.sent_log_start = 8, 2
    fields = {"size": 0, "watermark": 8, "log_start_offset": 2, **changes}
    assert is_news(slot, Found(None, **fields)) is expected
