"""The checker of stored share states and share groups rejects histories that break a rule, and accepts the others."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.simulation.coordinators.batches import Batch
from tests.simulation.shares.fences import Fences
from tests.simulation.shares.groups import Groups
from tests.simulation.shares.states import States
from trimaran.broker.share_state.records import (
    ShareRecordSerde,
    SnapshotRecord,
    StoredState,
    UpdateRecord,
)
from trimaran.broker.share_state.states import DeliveryState, ShareSummary, StateBatch
from trimaran.wire.identity import SharePartitionKey
from trimaran.wire.records.groups import encode_group_key, encode_group_value
from trimaran.wire.records.share_groups import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    TopicPartitionsInfo,
)
from trimaran.wire.records.share_groups import TopicPartitions as Assigned

TOPIC = bytes(15) + b"\1"
KEY = SharePartitionKey("g", TOPIC, 0)
NEW = StoredState(0, 1, 0, 0, 0, (), 1000, 1000)
FREE, DONE = DeliveryState.AVAILABLE, DeliveryState.ACKNOWLEDGED


def batch_of(offset, *records):
    rows = tuple((offset + number, *record) for number, record in enumerate(records))
    return Batch(offset, offset + len(rows) - 1, 0, -1, -1, False, None, rows)


class StoredStates:
    """The states of one shard, with the rules that their records have broken; records from 0 to 9 were delivered as
    often as allowed.
    """

    def __init__(self, *, is_wanted=True):
        self.broken, self._end = [], 0
        self.states = States(self._require, self._passed, lambda *_: None, self._done)
        self._is_wanted = is_wanted
        self.states.initializes(SnapshotRecord(KEY, NEW))
        self.store(SnapshotRecord(KEY, NEW))

    def _require(self, holds, rule, *_why):
        if not holds:
            self.broken.append(rule)

    def _passed(self, _key, _life, _offset, is_final):
        self._require(is_final, "Q6")

    def _done(self, *_what):
        self._require(self._is_wanted, "Q5")

    def store(self, record):
        encoded = ShareRecordSerde().encode(record, 0)
        self.states.committed(0, batch_of(self._end, (encoded.key, encoded.value)))
        self._end += 1

    def update(self, start, *batches, leader=-1):
        self.store(UpdateRecord(KEY, 0, leader, start, 0, batches))


def stored(**changes):
    return SnapshotRecord(KEY, NEW._replace(snapshot_epoch=1, **changes))


def of(first, last, state, count=1):
    return StateBatch(first, last, state, count)


def test_correct_states_break_no_rule():
    made = StoredStates()
    made.update(0, of(0, 4, DONE), leader=1)
    made.update(5, of(5, 9, FREE))
    made.store(stored(leader_epoch=1, start_offset=5, batches=(of(5, 9, FREE),)))
    made.states.has(KEY, [of(0, 4, DONE), of(5, 9, FREE)])
    made.store(SnapshotRecord(KEY, None))
    assert (made.broken, made.states.needed_from(0)) == ([], 5)


@pytest.mark.parametrize(
    ("record", "broken"),
    [
        (UpdateRecord(KEY, 0, 1, 4, 0, ()), ["Q6"]),
        (UpdateRecord(KEY, 0, 1, 6, 0, ()), ["Q6"]),
        (UpdateRecord(KEY, 1, 1, 5, 0, ()), ["Q7"]),
        (UpdateRecord(KEY, 0, 0, 5, 0, ()), ["Q8"]),
        (stored(leader_epoch=1, start_offset=5), ["Q7"] * 5),
        (stored(leader_epoch=1, start_offset=5, batches=(of(5, 9, FREE),)), ["Q7"] * 5),
        (stored(leader_epoch=0, start_offset=5, batches=(of(5, 9, FREE, 2),)), ["Q8"]),
        (
            stored(leader_epoch=1, start_offset=5, batches=(of(5, 9, FREE, 2),), state_epoch=0),
            ["Q8"],
        ),
        (
            stored(leader_epoch=1, start_offset=5, batches=(of(5, 9, FREE, 2),))._replace(
                state=NEW._replace(leader_epoch=1, start_offset=5, batches=(of(5, 9, FREE, 2),))
            ),
            ["Q7"],
        ),
        (UpdateRecord(KEY._replace(partition=1), 0, 1, 4, 0, ()), ["Q7"]),
    ],
)
def test_wrong_record_breaks_its_rule(record, broken):
    made = StoredStates()
    made.update(0, of(0, 4, DONE), leader=1)
    made.update(5, of(5, 9, FREE, 2))
    made.store(record)
    assert made.broken == broken


def test_unwanted_end_of_a_record_is_found():
    made = StoredStates(is_wanted=False)
    made.update(0, of(0, 1, DONE))
    assert made.broken == ["Q5"] * 2


@pytest.mark.parametrize("batch", [of(5, 9, DONE), of(5, 9, FREE, 2), of(9, 10, FREE)])
def test_answered_write_is_stored(batch):
    made = StoredStates()
    made.update(0, of(5, 9, FREE))
    made.states.has(KEY, [batch])
    assert set(made.broken) == {"Q7"}


@pytest.mark.parametrize(("snapshots", "needed"), [(0, 0), (1, 2), (2, 3)])
def test_log_is_needed_from_its_last_snapshot(snapshots, needed):
    made = StoredStates()
    made.update(0, of(5, 9, FREE))
    for number in range(snapshots):
        made.store(stored(batches=(of(5, 9, FREE),)))
        made.states.stored[KEY].snapshot_epoch = number - 1
    assert made.states.needed_from(0) == needed


@pytest.mark.parametrize(
    ("state_epoch", "leader_epoch", "broken"), [(2, 5, []), (1, 5, ["Q8"]), (2, 4, ["Q8"])]
)
def test_fenced_write_is_found(state_epoch, leader_epoch, broken):
    found, shard = [], StoredStates()
    fences = Fences(lambda holds, rule, *_: holds or found.append(rule))
    fences.replays(shard, stored(state_epoch=2))
    fences.reads(shard, KEY, 6, [UpdateRecord(KEY, 0, 6, 0, 0, ())])
    fences.reads(shard, KEY, 5, ())
    summary = ShareSummary(state_epoch, leader_epoch, 0, 0)
    fences.writes(shard, KEY, summary)
    assert found == broken
    fences.replays(shard, SnapshotRecord(KEY, None))
    fences.writes(shard, KEY, summary)
    assert found == broken


class StoredGroups:
    def __init__(self, *, has_state=True):
        self.broken, self._end = [], 0
        self.groups = Groups(self._require, lambda _key: has_state)

    def _require(self, holds, rule, *why):
        if not holds:
            self.broken.append((rule, why[-1]))

    def store(self, key, value):
        row = (encode_group_key(key), None if value is None else encode_group_value(value, 0))
        made = batch_of(self._end, row)
        self.groups.appended(made)
        self.groups.committed(made)
        self._end += 1
        return self

    def epoch(self, number):
        return self.store(
            ShareGroupMetadataKey(group_id="g"),
            ShareGroupMetadataValue(epoch=number, metadata_hash=0),
        )

    def initialized(self, *partitions):
        info = TopicPartitionsInfo(topic_id=TOPIC, topic_name="t", partitions=list(partitions))
        value = ShareGroupStatePartitionMetadataValue(
            initializing_topics=[], initialized_topics=[info], deleting_topics=[]
        )
        return self.store(ShareGroupStatePartitionMetadataKey(group_id="g"), value)

    def member(self, epoch, *partitions):
        value = ShareGroupCurrentMemberAssignmentValue(
            member_epoch=epoch,
            previous_member_epoch=0,
            state=0,
            assigned_partitions=[Assigned(topic_id=TOPIC, partitions=list(partitions))],
        )
        return self.store(ShareGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"), value)

    def removed(self):
        return self.store(ShareGroupMemberMetadataKey(group_id="g", member_id="m"), None)

    def beaten(self, epoch, *partitions, code=0):
        assignment = SimpleNamespace(
            topic_partitions=[SimpleNamespace(topic_id=TOPIC, partitions=list(partitions))]
        )
        request = SimpleNamespace(group_id="g", member_id="m", member_epoch=epoch)
        response = SimpleNamespace(error_code=code, member_epoch=epoch, assignment=assignment)
        self.groups.beaten(request, response)
        return self


def test_correct_group_breaks_no_rule():
    made = StoredGroups().epoch(1).initialized(0, 1).epoch(2).member(2, 0).beaten(2, 0)
    made.removed().beaten(2, code=UNKNOWN_MEMBER_ID)
    assert made.broken == []


UNKNOWN_MEMBER_ID = 25


@pytest.mark.parametrize(
    "breaks",
    [
        lambda made: made.epoch(2),
        lambda made: made.member(1, 0),
        lambda made: made.member(3, 0),
        lambda made: made.member(2, 1),
        lambda made: made.beaten(3, 0),
        lambda made: made.beaten(2),
        lambda made: made.beaten(2, 1),
        lambda made: made.beaten(2, 0).beaten(2, code=UNKNOWN_MEMBER_ID),
    ],
)
def test_wrong_group_breaks_a_rule(breaks):
    made = StoredGroups().epoch(1).initialized(0).epoch(2).member(2, 0)
    assert made.broken == []
    breaks(made)
    assert [rule for rule, _ in made.broken] == ["Q10"]


def test_initialized_partition_needs_a_state():
    made = StoredGroups(has_state=False).epoch(1).initialized(0)
    assert made.broken == [("Q10", "counts as initialized and has no state")]
