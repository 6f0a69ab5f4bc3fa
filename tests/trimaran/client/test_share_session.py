"""A share session: its requests, the records of its responses, and acknowledgements."""

from hypothesis import given
from hypothesis import strategies as st

from trimaran.client.share_session import ACCEPT, GAP, REJECT, RELEASE, LeaderSession
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.messages.share_acknowledge import ShareAcknowledgeRequest
from trimaran.wire.messages.share_fetch import AcquiredRecords, LeaderIdAndEpoch, PartitionData

ID = bytes(range(16))
P0, P1, P2 = (TopicIdPartition(ID, index) for index in range(3))


def fetch(session, *wanted, **options):
    given_ = {"wait_ms": 5, "records_max": 9, "is_strict": False, **options}
    request = session.fetch(wanted, **given_)
    session.received()
    return request


def named(request):
    """Returns the partitions of a request with their acknowledgements."""
    return {
        partition.partition_index: [
            (batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for batch in partition.acknowledgement_batches
        ]
        for topic in request.topics
        for partition in topic.partitions
    }


def forgotten(request):
    return [index for topic in request.forgotten_topics_data for index in topic.partitions]


def told(data, *acquired):
    return PartitionData(
        partition_index=0,
        current_leader=LeaderIdAndEpoch(leader_id=1, leader_epoch=0),
        records=data,
        acquired_records=[
            AcquiredRecords(first_offset=first, last_offset=last, delivery_count=deliveries)
            for first, last, deliveries in acquired
        ],
    )


def batch(first, count):
    return bytes(build_batch([NewRecord(None, b"v", 0)] * count, base_offset=first))


def test_partitions_are_named_once():
    session = LeaderSession("g", "m")
    first, second, third = fetch(session, P0, P1), fetch(session, P0, P1), fetch(session, P1, P2)
    assert [one.share_session_epoch for one in (first, second, third)] == [0, 1, 2]
    assert [named(one) for one in (first, second, third)] == [{0: [], 1: []}, {}, {2: []}]
    assert [forgotten(one) for one in (first, second, third)] == [[], [], [0]]
    assert (first.group_id, first.member_id, first.max_wait_ms) == ("g", "m", 5)
    assert (first.max_records, first.batch_size, first.share_acquire_mode) == (9, 9, 0)
    assert fetch(session, P1, is_strict=True).share_acquire_mode == 1


def test_acknowledgements_go_with_the_next_request():
    session = LeaderSession("g", "m")
    fetch(session, P0, P1)
    for offset, kind in ((3, ACCEPT), (4, ACCEPT), (5, REJECT), (7, REJECT)):
        session.acknowledge(P0, offset, kind)
    session.acknowledge(P1, 9, RELEASE)
    request = fetch(session, P0)
    assert named(request) == {
        0: [(3, 4, [ACCEPT]), (5, 5, [REJECT]), (7, 7, [REJECT])],
        1: [(9, 9, [RELEASE])],
    }
    assert forgotten(request) == [1]
    assert (session.sent, session.sent_of(P0), session.sent_of(P2)) == (5, 4, 0)
    assert named(fetch(session, P0)) == {}
    assert session.sent == 0


def test_closing_sends_the_rest():
    session = LeaderSession("g", "m")
    assert session.closing() is None
    fetch(session, P0)
    session.acknowledge(P0, 3, ACCEPT)
    closing = session.closing()
    assert type(closing) is ShareAcknowledgeRequest
    assert (closing.share_session_epoch, named(closing)) == (-1, {0: [(3, 3, [ACCEPT])]})
    assert session.sent == 1
    assert session.closing() is None


def test_lost_session_restarts_without_acknowledgements():
    session = LeaderSession("g", "m")
    fetch(session, P0)
    session.acknowledge(P0, 3, ACCEPT)
    session.lost()
    session.acknowledge(P0, 4, ACCEPT)
    request = fetch(session, P0)
    assert (request.share_session_epoch, named(request)) == (0, {0: []})


def test_epoch_after_the_largest_is_one():
    session = LeaderSession("g", "m")
    session._epoch = (1 << 31) - 2
    assert [fetch(session, P0).share_session_epoch for _ in range(3)] == [
        (1 << 31) - 2,
        (1 << 31) - 1,
        1,
    ]


def test_only_acquired_records_are_delivered():
    session = LeaderSession("g", "m")
    fetch(session, P0)
    data = batch(2, 4) + batch(8, 2)
    found = list(session.records(P0, told(data, (1, 3, 1), (5, 8, 2))))
    assert [(one.record.offset, one.deliveries) for one in found] == [
        (2, 1),
        (3, 1),
        (5, 2),
        (8, 2),
    ]
    assert {one.partition for one in found} == {P0}
    assert named(fetch(session, P0)) == {0: [(1, 1, [GAP]), (6, 7, [GAP])]}
    assert session.sent == 0


def test_control_records_are_gaps():
    session = LeaderSession("g", "m")
    fetch(session, P0)
    marker = bytes(build_batch([NewRecord(b"", b"", 0)], base_offset=3, is_control=True))
    found = list(session.records(P0, told(batch(2, 1) + marker, (2, 3, 1))))
    assert [one.record.offset for one in found] == [2]
    assert named(fetch(session, P0)) == {0: [(3, 3, [GAP])]}


def test_response_without_records_is_a_gap():
    session = LeaderSession("g", "m")
    fetch(session, P0)
    assert list(session.records(P0, told(None, (4, 6, 1)))) == []
    assert named(fetch(session, P0)) == {0: [(4, 6, [GAP])]}
    assert list(session.records(P0, told(batch(0, 2)))) == []


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=4),
)
def test_every_acquired_offset_is_delivered_or_a_gap(batches, ranges):
    """The naive twin looks each offset up in the set of all records."""
    at, data, present = 0, b"", set()
    for gap, count in batches:
        data += batch(at + gap, count)
        present |= set(range(at + gap, at + gap + count))
        at += gap + count
    at, acquired = 0, []
    for gap, more in ranges:
        acquired.append((at + gap, at + gap + more, 1))
        at += gap + more + 1
    session = LeaderSession("g", "m")
    fetch(session, P0)
    delivered = []
    for one in session.records(P0, told(data, *acquired)):
        delivered.append(one.record.offset)
        session.acknowledge(P0, one.record.offset, ACCEPT)
    every = [offset for first, last, _ in acquired for offset in range(first, last + 1)]
    assert delivered == [offset for offset in every if offset in present]
    runs = named(fetch(session, P0)).get(0, [])
    kinds = {offset: kind for first, last, [kind] in runs for offset in range(first, last + 1)}
    assert kinds == {offset: ACCEPT if offset in present else GAP for offset in every}
    assert [run[0] for run in runs] == sorted(run[0] for run in runs)
