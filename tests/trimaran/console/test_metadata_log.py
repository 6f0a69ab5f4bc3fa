"""The metadata log of the console: every state, however much was kept, and readable descriptions of changes."""

import itertools

import pytest

from tests.quorum.metadata.build import uid
from tests.spark.directories import created_topic
from trimaran.console import metadata_log
from trimaran.console.charts import Bar, TimeSpan, bands
from trimaran.console.metadata_log import MetadataHistory, ShownSnapshot
from trimaran.errors.user_error import UserError
from trimaran.inspect.metadata.diff import differences, state_differences
from trimaran.inspect.metadata.source import Base
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.quorum.metadata.as_json import state_as_json
from trimaran.quorum.metadata.records import image_to_records
from trimaran.quorum.metadata.replay import Replay
from trimaran.quorum.raft.types import OffsetAndEpoch
from trimaran.quorum.raft_log.snapshot_format import encode_snapshot
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.records.brokers import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.metadata import encode_metadata_record
from trimaran.wire.records.misc import NoOpRecord
from trimaran.wire.records.topics import (
    PartitionChangeRecord,
    RemoveTopicRecord,
)

ORDERS = uid(1)
IDLE = [NoOpRecord()]


def config(key, value):
    return ConfigRecord(resource_type=2, resource_name="orders", name=key, value=value)


HISTORY = [
    [
        RegisterBrokerRecord(
            broker_id=11,
            incarnation_id=uid(11),
            broker_epoch=1,
            end_points=[],
            features=[],
            rack=None,
        )
    ],
    [BrokerRegistrationChangeRecord(broker_id=11, broker_epoch=1, fenced=-1)],
    [
        *created_topic(ORDERS),
        config("retention.ms", "1"),
        config("cleanup.policy", "compact"),
    ],
    IDLE,
    [PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=[12], leader=12)],
    [PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=[12, 11])],
    [PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=[12], leader=-1)],
    [BrokerRegistrationChangeRecord(broker_id=11, broker_epoch=1, fenced=1)],
    [config("retention.ms", None)],
    [RemoveTopicRecord(topic_id=ORDERS)],
]


def batches_of(history):
    data, offset = b"", 0
    for records in history:
        new = [
            NewRecord(None, encode_metadata_record(record, 0), 1000 + offset) for record in records
        ]
        data += build_batch(new, base_offset=offset, leader_epoch=1)
        offset += len(records)
    return list(iter_batches(memoryview(data)))


def read(history, monkeypatch):
    """Returns a log that has been read completely, and sends no requests."""
    log = MetadataHistory(lambda: None, "nobody")
    monkeypatch.setattr(log, "_catch_up", lambda: None)
    log._keep_state()
    for batch in batches_of(history):
        log._take(batch)
    return log


@pytest.mark.parametrize("records_per_state", [1, 3, 1000])
def test_state_equals_replay_up_to_offset(monkeypatch, records_per_state):
    monkeypatch.setattr(metadata_log, "RECORDS_PER_STATE", records_per_state)
    log = read(HISTORY, monkeypatch)
    first, last = log.bounds()
    assert (first, last) == (0, sum(map(len, HISTORY)) - 1)
    for offset in range(first, last + 1):
        naive = Replay()
        naive.apply_all(batches_of(HISTORY), offset + 1)
        assert log.state_at(offset).image.same_content(naive.state.image)
    with pytest.raises(UserError, match="not known"):
        log.state_at(last + 1)


def test_state_differences_match_those_of_json(monkeypatch):
    """New and removed topics are reported without comparing the remaining ones."""
    log = read(HISTORY, monkeypatch)
    states = [log.state_at(offset) for offset in range(log.bounds()[1] + 1)]

    def of(rows):
        return {row["path"]: row for row in rows}

    for before, after in itertools.product(states, repeat=2):
        naive = of(differences(state_as_json(before), state_as_json(after)))
        for place in ("/offset", "/timestamp_ms"):
            naive.pop(place, None)
        assert of(state_differences(before, after)) == naive


def test_old_states_are_dropped_rest_is_reproducible(monkeypatch):
    monkeypatch.setattr(metadata_log, "RECORDS_PER_STATE", 2)
    monkeypatch.setattr(metadata_log, "LOG_BYTES_MAX", 500)
    history = HISTORY + [IDLE] * 20
    log = read(history, monkeypatch)
    first, last = log.bounds()
    assert 0 < first < last
    for offset in range(first, last + 1):
        naive = Replay()
        naive.apply_all(batches_of(history), offset + 1)
        assert log.state_at(offset).image.same_content(naive.state.image)
    with pytest.raises(UserError, match="is not known"):
        log.state_at(first - 1)


def test_events_are_described_in_words(monkeypatch):
    log = read(HISTORY, monkeypatch)
    told = [f"{event.level} {event.subject}: {event.text}" for event in reversed(log.events())]
    assert told == [
        "info broker 11: registered",
        "info broker 11: is active",
        "info orders: was created with 1 partition",
        "info topic orders: retention.ms=1, cleanup.policy=compact",
        "info orders-0: is led by broker 12, before by 11",
        "warn orders-0: in-sync replicas lost 11; now 12",
        "info orders-0: in-sync replicas gained 11; now 12, 11",
        "bad orders-0: has no leader, before by 12",
        "warn orders-0: in-sync replicas lost 11; now 12",
        "bad broker 11: was fenced",
        "info topic orders: retention.ms was reset to its default",
        "warn orders: was deleted",
    ]


def test_partition_has_its_changes(monkeypatch):
    log = read(HISTORY, monkeypatch)
    changes = log.changes_of(TopicIdPartition(ORDERS, 0))
    assert [(change.leader, change.isr) for change in changes] == [
        (11, (11, 12)),
        (12, (12,)),
        (12, (12, 11)),
        (-1, (12,)),
    ]


def test_configs_have_their_history_the_newest_first(monkeypatch):
    log = read(HISTORY, monkeypatch)
    told = [
        (
            config.offset,
            config.resource,
            config.key,
            config.value,
            config.before,
        )
        for config in log.configs()
    ]
    assert told == [
        (11, "orders", "retention.ms", None, "1"),
        (5, "orders", "cleanup.policy", "compact", None),
        (4, "orders", "retention.ms", "1", None),
    ]


class _Began:
    """A quorum whose leader's log begins with a snapshot of everything written before."""

    def __init__(self, history, data):
        self._history, self._data = history, data

    def base(self, _):
        return Base(sum(map(len, self._history)), 1, self._data)


def test_log_from_snapshot_reports_earlier_configs(monkeypatch):
    before = HISTORY[:3]
    replay = Replay()
    replay.apply_all(batches_of(before), sum(map(len, before)))
    values = [encode_metadata_record(record, 0) for record in image_to_records(replay.state.image)]
    id_ = OffsetAndEpoch(6, 1)
    data = b"".join(encode_snapshot(id_, values, appended_at_ms=1005, now_ms=2000))
    log = MetadataHistory(lambda: None, "nobody")
    monkeypatch.setattr(log, "_catch_up", lambda: None)
    log._begin(_Began(before, data))
    assert log.snapshot() == ShownSnapshot(6, 1, len(data), 1005)
    told = {
        (config.offset, config.timestamp_ms, config.key, config.value) for config in log.configs()
    }
    assert told == {(5, -1, "retention.ms", "1"), (5, -1, "cleanup.policy", "compact")}


def test_records_are_shown_without_idle_ones(monkeypatch):
    log = read(HISTORY, monkeypatch)
    rows = log.records_before(8, 3)
    assert [(row["offset"], row["type"]) for row in rows] == [
        (8, "PartitionChangeRecord"),
        (7, "PartitionChangeRecord"),
        (5, "ConfigRecord"),
    ]
    assert log.offset_at(1008) == 8
    assert log.offset_at(0) == 0


def test_bands_continue_without_changes():
    chart = bands(
        [TimeSpan("b", "2", 50, 100), TimeSpan("a", "1", 0, 50), TimeSpan("b", "3", 100, 100)]
    )
    assert chart.rows == {
        "a": [Bar(0.0, 500.0, "1", 0, 50)],
        "b": [Bar(500.0, 500.0, "2", 50, 100)],
    }
    assert bands([]) is None
