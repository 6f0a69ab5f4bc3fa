import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.zkcompat import build
from trimaran.zkcompat.legacy.requests.reassignments import (
    REASSIGN_PARTITIONS,
    Reassignments,
    advance,
)
from trimaran.zkcompat.tree.claim import TransactionStep

DELETE = TransactionStep("delete", REASSIGN_PARTITIONS)
# As kafka-reassign-partitions of 0.8.2, and of 2.8 with directories, which never reach this znode.
OLD = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,3]}]}'


def image_of(**changes):
    records = [build.topic("t", build.T1), build.partition(build.T1, 0, [1, 2])]
    if changes:
        records.append(build.change(build.T1, 0, **changes))
    return build.image_of(*records)


STILL = image_of()
MOVING = image_of(replicas=[2, 3, 1], adding_replicas=[3], removing_replicas=[1])
MOVED = image_of(replicas=[2, 3], adding_replicas=[], removing_replicas=[])
ELSEWHERE = image_of(replicas=[2, 4, 1], adding_replicas=[4], removing_replicas=[1])
TARGETS = {("t", 0): (2, 3)}


def test_move_is_requested_shown_and_removed():
    progress = advance(OLD, STILL, {})
    (quorum_request,) = progress.request.quorum_requests
    (topic,) = quorum_request.request.topics
    assert (topic.name, topic.partitions[0].replicas) == ("t", [2, 3])
    assert progress.write is None

    assert advance(OLD, MOVING, TARGETS) == (running := advance(OLD, MOVING, {}))
    assert (running.request, running.left, running.write) == (None, TARGETS, None)

    done = advance(OLD, MOVED, TARGETS)
    assert (done.request, done.left, done.write) == (None, {}, DELETE)


def test_next_mirror_repeats_no_running_move():
    assert advance(OLD, MOVING, {}).request is None
    assert advance(OLD, MOVED, {}).write == DELETE


def test_cancelled_or_refused_move_is_removed():
    assert advance(OLD, STILL, TARGETS).write == DELETE
    assert advance(OLD, ELSEWHERE, TARGETS).write == DELETE


def test_other_target_is_requested():
    """One partition is moving elsewhere, and an earlier request for another partition was carried out."""
    assert advance(OLD, ELSEWHERE, {}).request is not None
    assert advance(OLD, MOVED, {("t", 0): (1, 2)}).request is None
    assert advance(OLD, STILL, {("t", 0): (1, 2)}).request is not None


def test_completed_partitions_are_removed_one_by_one():
    records = [build.topic("t", build.T1)]
    for index, changes in enumerate([{"replicas": [2]}, {"replicas": [1, 2], "adding_replicas": [2],
                                     "removing_replicas": [1]}]):  # fmt: skip
        records += [
            build.partition(build.T1, index, [1]),
            build.change(build.T1, index, **changes),
        ]
    both = Reassignments({("t", 0): (2,), ("t", 1): (2,)})
    progress = advance(both.encode(), build.image_of(*records), both.targets)
    assert progress.left == {("t", 1): (2,)}
    left = Reassignments({("t", 1): (2,)})
    assert progress.write == TransactionStep("set", REASSIGN_PARTITIONS, left.encode())


def test_completed_move_may_be_requested_again():
    """Another move is running, so the znode stays; the partition was moved back by other means."""
    other = ("t", 1)
    records = [build.topic("t", build.T1), build.partition(build.T1, 0, [1, 2])]
    records.append(build.partition(build.T1, 1, [1]))
    runs = build.change(build.T1, 1, replicas=[2, 1], adding_replicas=[2], removing_replicas=[1])
    image = build.image_of(*records, runs)
    both = Reassignments({**TARGETS, other: (2,)}).encode()
    asked = advance(both, image, {})
    assert asked.begun == {**TARGETS, other: (2,)}
    left = advance(Reassignments({other: (2,)}).encode(), image, asked.begun)
    assert (left.request, left.write, left.begun) == (None, None, {other: (2,)})
    assert advance(both, image, left.begun).request is not None


@pytest.mark.parametrize(
    "data",
    [None, b"", b"[]", b"{}", b'{"partitions":[{}]}', b'{"partitions":[{"topic":"t"}]}',
     b'{"partitions":[{"topic":"t","partition":0,"replicas":["1"]}]}',
     b'{"partitions":[{"topic":"t","partition":0,"replicas":[1]},'
     b'{"topic":"t","partition":0,"replicas":[2]}]}'],
)  # fmt: skip
def test_invalid_request_is_removed(data):
    progress = advance(data, STILL, {})
    assert not progress.request.quorum_requests
    assert progress.request.refused
    assert progress.write == DELETE


def test_move_without_change_is_done():
    assert advance(b'{"version":1,"partitions":[]}', STILL, {}).write == DELETE


@given(
    st.dictionaries(
        st.tuples(st.text(min_size=1), st.integers(0, 9)),
        st.lists(st.integers(0, 9)).map(tuple),
    )
)
def test_encoded_reassignments_are_decoded(targets):
    assert Reassignments.decode(Reassignments(targets).encode()).targets == targets
