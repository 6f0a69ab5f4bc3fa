"""The checker of coordinators rejects histories that break a rule, and accepts those that break none."""

from __future__ import annotations

import pytest

from tests.simulation.checker import Violation
from tests.simulation.coordinators.batches import Batch
from tests.simulation.coordinators.compacted import Compacted, Left
from tests.simulation.coordinators.offsets import Offsets
from tests.simulation.coordinators.outcomes import Outcomes
from tests.simulation.coordinators.transactions import S, Transactions
from trimaran.broker.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from trimaran.log.producers.marker import EndMarker
from trimaran.wire.records.consumer_groups import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    TopicPartitions,
)
from trimaran.wire.records.groups import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_group_key,
    encode_group_value,
)
from trimaran.wire.records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

OUT = ("out", 0)
STATES, OFFSETS = (TRANSACTION_STATE, 0), (CONSUMER_OFFSETS, 0)
PARTITION = ("g", "in", 0)


def require(holds: bool, name: str, *why: object) -> None:
    if not holds:
        raise Violation(f"{name} {' '.join(map(str, why))}")


class History:
    """Batches in order, each appended and committed."""

    def __init__(self) -> None:
        self.outcomes = Outcomes(require)
        self.transactions = Transactions(require, self.outcomes, has_own_epochs=True)
        self.offsets = Offsets(require, self.outcomes)
        self._next = 0

    def add(
        self,
        place: tuple[str, int],
        *records: tuple[bytes, bytes | None],
        producer: tuple[int, int] = (-1, -1),
        marker: EndMarker | None = None,
        leader_epoch: int = 0,
    ) -> None:
        base, self._next = self._next, self._next + max(1, len(records))
        numbered = tuple((base + n, key, value) for n, (key, value) in enumerate(records))
        is_transactional = producer[0] >= 0
        batch = Batch(
            base, self._next - 1, leader_epoch, *producer, is_transactional, marker, numbered
        )
        self.outcomes.appended(place, batch)
        self.transactions.appended(place, batch)
        if place[0] == CONSUMER_OFFSETS:
            self.offsets.appended(batch)
        self.transactions.committed(place, batch)
        if place[0] == CONSUMER_OFFSETS:
            self.offsets.committed(batch)

    def state(
        self, name: str, state: S, epoch: int, producer_id: int = 1, leader_epoch: int = 0
    ) -> None:
        key = TransactionLogKey(transactional_id=name)
        value = TransactionLogValue(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_timeout_ms=1000,
            transaction_status=state,
            transaction_partitions=[PartitionsSchema(topic="out", partition_ids=[0])],
            transaction_last_update_timestamp_ms=0,
            transaction_start_timestamp_ms=0,
        )
        data = b"\0\0" + key.encode(0), b"\0\1" + value.encode(1)
        self.add(STATES, data, leader_epoch=leader_epoch)

    def data(self, value: bytes, epoch: int, place: tuple[str, int] = OUT) -> None:
        self.add(place, (b"", value), producer=(1, epoch))

    def mark(
        self, epoch: int, *, is_commit: bool, place: tuple[str, int] = OUT, coordinator: int = 0
    ) -> None:
        self.add(place, producer=(1, epoch), marker=EndMarker(is_commit, coordinator))

    def open(self, value: bytes = b"0:0/a") -> None:
        self.state("t", S.EMPTY, 0)
        self.state("t", S.ONGOING, 0)
        self.data(value, 0)

    def decide(self, *, is_commit: bool = True) -> None:
        self.state("t", S.PREPARE_COMMIT if is_commit else S.PREPARE_ABORT, 1)

    def commit_offset(self, offset: int, note: str, producer: tuple[int, int] = (-1, -1)) -> None:
        key = encode_group_key(OffsetCommitKey(group="g", topic="in", partition=0))
        value = OffsetCommitValue(offset=offset, metadata=note, commit_timestamp=0)
        self.add(OFFSETS, (key, encode_group_value(value, 3)), producer=producer)

    def generation(self, generation: int) -> None:
        value = GroupMetadataValue(
            protocol_type="consumer", generation=generation, protocol="range", leader="", members=[]
        )
        key = encode_group_key(GroupMetadataKey(group="g"))
        self.add(OFFSETS, (key, encode_group_value(value, 3)))

    def stable(self, generation: int) -> None:
        """Writes a classic group with a member."""
        member = MemberMetadata(
            member_id="m",
            client_id="c",
            client_host="/127.0.0.1",
            rebalance_timeout=700,
            session_timeout=800,
            subscription=b"",
            assignment=b"",
        )
        value = GroupMetadataValue(
            protocol_type="consumer",
            generation=generation,
            protocol="range",
            leader="m",
            members=[member],
        )
        key = encode_group_key(GroupMetadataKey(group="g"))
        self.add(OFFSETS, (key, encode_group_value(value, 3)))

    def upgrade(self, epoch: int) -> None:
        """Replaces the classic group by a consumer group."""
        key = ConsumerGroupMetadataKey(group_id="g")
        value = ConsumerGroupMetadataValue(epoch=epoch)
        self.add(
            OFFSETS,
            (encode_group_key(GroupMetadataKey(group="g")), None),
            (encode_group_key(key), encode_group_value(value, 0)),
        )

    def own(self, member: str, epoch: int, *partitions: int) -> None:
        key = ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id=member)
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=epoch,
            previous_member_epoch=0,
            state=0,
            assigned_partitions=[TopicPartitions(topic_id=bytes(16), partitions=list(partitions))],
            partitions_pending_revocation=[],
        )
        self.add(OFFSETS, (encode_group_key(key), encode_group_value(value, 0)))


@pytest.fixture
def history() -> History:
    return History()


def test_correct_transaction_is_accepted(history: History) -> None:
    history.open()
    history.commit_offset(1, "a", (1, 0))
    assert history.offsets.value(PARTITION).offset == -1
    history.decide()
    history.mark(1, is_commit=True)
    history.mark(1, is_commit=True, place=OFFSETS)
    history.state("t", S.COMPLETE_COMMIT, 1)
    assert history.outcomes.visible[b"0:0"] == 1
    assert history.offsets.value(PARTITION).offset == 1
    assert not history.transactions.unfinished()


# --- transactions


def test_marker_without_decision_is_found(history: History) -> None:
    history.open()
    with pytest.raises(Violation, match="T6 "):
        history.mark(1, is_commit=True)


def test_marker_opposite_to_decision_is_found(history: History) -> None:
    history.open()
    history.decide()
    with pytest.raises(Violation, match="T6 "):
        history.mark(1, is_commit=False)


def test_marker_of_former_coordinator_is_found(history: History) -> None:
    history.open()
    history.state("t", S.PREPARE_COMMIT, 1, leader_epoch=3)
    with pytest.raises(Violation, match="T6 "):
        history.mark(1, is_commit=True, coordinator=2)


def test_completion_before_markers_is_found(history: History) -> None:
    history.open()
    history.decide()
    with pytest.raises(Violation, match="T6 "):
        history.state("t", S.COMPLETE_COMMIT, 1)


def test_second_decision_is_found(history: History) -> None:
    history.open()
    history.decide()
    with pytest.raises(Violation, match="T7 "):
        history.decide(is_commit=False)


def test_producer_id_of_two_transactional_ids_is_found(history: History) -> None:
    history.state("t", S.EMPTY, 0)
    with pytest.raises(Violation, match="I4 "):
        history.state("u", S.EMPTY, 0)


def test_decreasing_producer_epoch_is_found(history: History) -> None:
    history.state("t", S.EMPTY, 2)
    with pytest.raises(Violation, match="T5 "):
        history.state("t", S.EMPTY, 1)


def test_batch_of_fenced_epoch_is_found(history: History) -> None:
    history.data(b"0:0/a", 1)
    with pytest.raises(Violation, match="T5 "):
        history.data(b"0:1/b", 0)


def test_batch_after_answered_newer_epoch_is_found(history: History) -> None:
    history.outcomes.began(1, 1)
    with pytest.raises(Violation, match="T5 "):
        history.data(b"0:0/a", 0)


def test_epoch_answered_to_two_producers_is_found(history: History) -> None:
    history.outcomes.began(1, 0)
    with pytest.raises(Violation, match="T5 "):
        history.outcomes.began(1, 0)


def test_partly_committed_transaction_is_found(history: History) -> None:
    history.outcomes.ended(b"0:0/a", is_commit=True)
    with pytest.raises(Violation, match="T1 "):
        history.outcomes.ended(b"0:1/a", is_commit=False)


def test_outcome_other_than_answered_is_found(history: History) -> None:
    history.outcomes.told("a", is_commit=True)
    with pytest.raises(Violation, match="T1 "):
        history.outcomes.ended(b"0:0/a", is_commit=False)


def test_commit_without_acknowledged_is_found(history: History) -> None:
    history.outcomes.acked(b"0:0/a")
    history.outcomes.told("a", is_commit=True)
    with pytest.raises(Violation, match="T1 "):
        history.outcomes.check_complete()


def test_duplicate_output_is_found(history: History) -> None:
    history.outcomes.ended(b"0:0/a", is_commit=True)
    history.outcomes.ended(b"0:0/b", is_commit=False)
    with pytest.raises(Violation, match="T10 "):
        history.outcomes.ended(b"0:0/c", is_commit=True)


# --- groups


def test_offsets_of_aborted_transaction_do_not_count(history: History) -> None:
    history.open()
    history.commit_offset(1, "a", (1, 0))
    history.decide(is_commit=False)
    history.mark(1, is_commit=False, place=OFFSETS)
    assert history.offsets.value(PARTITION).offset == -1


def test_later_offset_overrides_one_in_a_transaction(history: History) -> None:
    history.open()
    history.commit_offset(1, "a", (1, 0))
    history.commit_offset(2, "b")
    history.decide()
    history.mark(1, is_commit=True, place=OFFSETS)
    assert history.offsets.value(PARTITION).offset == 2


def test_commit_of_old_generation_is_found(history: History) -> None:
    history.offsets.told_generations["a"] = 1
    history.generation(2)
    with pytest.raises(Violation, match="G1 "):
        history.commit_offset(1, "a")


def test_decreasing_generation_is_found(history: History) -> None:
    history.generation(2)
    with pytest.raises(Violation, match="G1 "):
        history.generation(1)


def test_epochs_continue_from_generation_of_group_with_members(history: History) -> None:
    history.stable(7)
    history.upgrade(7)
    assert history.offsets.epochs["g"] == 7


def test_restarting_epochs_with_members_are_found(history: History) -> None:
    history.stable(7)
    with pytest.raises(Violation, match="G1 g goes from epoch 7 to 1"):
        history.upgrade(1)


def test_epochs_restart_after_empty_generation(history: History) -> None:
    history.stable(7)
    history.generation(8)
    history.upgrade(1)
    assert history.offsets.epochs["g"] == 1


def test_epochs_restart_after_unwritten_empty_generation(
    history: History,
) -> None:
    history.stable(7)
    history.offsets.could_not_write_empty("g", 8)
    history.upgrade(1)
    assert history.offsets.epochs["g"] == 1


def test_superseded_empty_generation_excuses_nothing(
    history: History,
) -> None:
    history.stable(7)
    history.offsets.could_not_write_empty("g", 8)
    history.stable(9)
    with pytest.raises(Violation, match="G1 g goes from epoch 9 to 1"):
        history.upgrade(1)


def test_partition_with_two_owners_is_found(history: History) -> None:
    history.own("m", 1, 0, 1)
    with pytest.raises(Violation, match="G2 "):
        history.own("n", 1, 1)


def test_decreasing_member_epoch_is_found(history: History) -> None:
    history.own("m", 2)
    with pytest.raises(Violation, match="G2 "):
        history.own("m", 1)


def test_partition_with_two_readers_is_found(history: History) -> None:
    history.own("m", 1, 0)
    history.own("n", 1)
    history.offsets.reads("g", "m", {0})
    with pytest.raises(Violation, match="G2 "):
        history.offsets.reads("g", "n", {0})


RETENTION_MS = 1000


def written(base: int, *values: bytes | None, producer_id: int = -1, key: bytes = b"k") -> Batch:
    records = tuple((base + n, key, value) for n, value in enumerate(values))
    last = base + max(1, len(values)) - 1
    return Batch(base, last, 0, producer_id, 0, producer_id >= 0, None, records)


def end_of(base: int, producer_id: int, *, is_commit: bool) -> Batch:
    return written(base, producer_id=producer_id)._replace(marker=EndMarker(is_commit, 0))


def compacted(*batches: Batch) -> Compacted:
    """Returns the checker's log of batches committed at 0 ms."""
    made = Compacted(require, RETENTION_MS)
    for batch in batches:
        made.committed(batch, 0)
    return made


def test_record_may_be_removed_after_later_one() -> None:
    first, second = written(0, b"a"), written(1, b"b")
    made = compacted(first, second)
    made.check("b", [Left(first, None), Left(second, second)], 0)
    with pytest.raises(Violation, match="P18 "):
        made.check("b", [Left(first, first), Left(second, None)], RETENTION_MS)


def test_aborted_record_replaces_no_other() -> None:
    first, second = written(0, b"a"), written(1, b"b", producer_id=1)
    made = compacted(first, second, end_of(2, 1, is_commit=False))
    made.check("b", [Left(first, first), Left(second, None)], 0)
    with pytest.raises(Violation, match="P18 "):
        made.check("b", [Left(first, None), Left(second, second)], 0)


def test_record_of_open_transaction_removes_nothing() -> None:
    first, second = written(0, b"a", producer_id=1), written(1, b"b", producer_id=1)
    with pytest.raises(Violation, match="P18 "):
        compacted(first, second).check("b", [Left(first, None), Left(second, second)], 0)


def test_tombstone_may_expire_without_older_records() -> None:
    value, tombstone = written(0, b"a"), written(1, None)
    made = compacted(value, tombstone)
    made.check("b", [Left(value, None), Left(tombstone, None)], RETENTION_MS)
    with pytest.raises(Violation, match="P18 "):
        made.check("b", [Left(value, None), Left(tombstone, None)], RETENTION_MS - 1)
    with pytest.raises(Violation, match="P18 "):
        made.check("b", [Left(value, value), Left(tombstone, None)], RETENTION_MS)


def test_marker_may_expire_after_its_transaction() -> None:
    data, marker, later = (
        written(0, b"a", producer_id=1),
        end_of(1, 1, is_commit=True),
        written(2, b"b"),
    )
    made = compacted(data, marker, later)
    made.check("b", [Left(data, None), Left(marker, None)], RETENTION_MS)
    for left, now_ms in ((None, RETENTION_MS - 1), (data._replace(records=()), RETENTION_MS)):
        with pytest.raises(Violation, match="T9 "):
            made.check("b", [Left(data, left), Left(marker, None)], now_ms)


def test_altered_batch_is_found() -> None:
    batch, later = written(0, b"a", b"b"), written(2, b"c")
    made = compacted(batch, later)
    made.check("b", [Left(batch, batch._replace(records=batch.records[1:]))], 0)
    for other in (batch._replace(producer_epoch=1), batch._replace(records=((0, b"k", b"x"),))):
        with pytest.raises(Violation, match="P18 "):
            made.check("b", [Left(batch, other)], 0)
