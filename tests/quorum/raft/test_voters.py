"""Voter sets and their history (KIP-853), with the rules that keep majorities overlapping (R10)."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimaran.quorum.raft.types import InvariantViolated, Peer, ReplicaKey, VoterEndpoint
from trimaran.quorum.raft.voters import QuorumHistory, Voter, VoterSet


def directory(number):
    return bytes(15) + bytes([number])


def voter(node_id, directory_number=1, port=9000):
    key = ReplicaKey(node_id, directory(directory_number))
    return Voter(key, (VoterEndpoint("CONTROLLER", "h", port),), 0, 1)


THREE = VoterSet.of(voter(i) for i in (3, 1, 2))


def test_voter_is_identified_by_node_and_directory():
    assert voter(1).key in THREE
    assert voter(1, 2).key not in THREE, "the same node with another disk"
    assert ReplicaKey(1) not in THREE
    static = VoterSet.static([Peer(1, "h", 9)])
    assert voter(1, 2).key in static, "a static set knows no directories"
    assert static.get(1).peer == Peer(1, "h", 9)


def test_voters_are_ordered_and_have_majorities():
    assert THREE.ids == (1, 2, 3)
    assert [v.id for v in THREE] == [1, 2, 3]
    assert [v.id for v in THREE.others(voter(2).key)] == [1, 3]
    assert (THREE.majority, THREE.is_majority({1, 2}), THREE.is_majority({1, 4, 5})) == (
        2,
        True,
        False,
    )


def test_impossible_voter_changes_return_nothing():
    assert THREE.add(voter(1, 7)) is None
    assert THREE.remove(ReplicaKey(1, directory(7))) is None
    assert THREE.remove(ReplicaKey(9, directory(1))) is None
    assert VoterSet.of([voter(1)]).remove(voter(1).key) is None, "the last voter stays"
    assert THREE.update(voter(1, 7)) is None
    assert THREE.update(voter(1, port=1)).get(1).endpoints[0].port == 1


def test_majorities_overlap_after_each_single_change():
    assert THREE.overlaps(THREE.add(voter(4)))
    assert THREE.overlaps(THREE.remove(voter(1).key))
    replaced = VoterSet.of([voter(1, 7), voter(2), voter(3)])
    assert THREE.overlaps(replaced)
    assert not THREE.overlaps(VoterSet.of([voter(1), voter(4), voter(5)]))
    five = THREE.add(voter(4)).add(voter(5))
    assert not THREE.overlaps(five)
    assert not five.overlaps(THREE)
    assert not VoterSet.of([voter(1), voter(2), voter(3), voter(4)]).overlaps(
        VoterSet.of([voter(1)])
    )


@given(st.sets(st.integers(0, 7), min_size=1), st.integers(0, 7))
def test_majorities_around_a_change_share_a_voter(ids, other):
    before = VoterSet.of(voter(i) for i in ids)
    after = before.add(voter(other)) or before.remove(voter(other).key)
    if after is None:
        return
    for combination in combinations(before.ids, before.majority):
        for two in combinations(after.ids, after.majority):
            assert set(combination) & set(two)


def test_newest_voter_set_counts_until_truncated():
    history = QuorumHistory(VoterSet.static([Peer(1)]))
    assert (history.voters.ids, history.voters_offset, history.is_dynamic) == ((1,), None, False)
    history.set_kraft_version(-1, 1)
    history.set_voters(-1, THREE)
    four = THREE.add(voter(4))
    history.set_voters(10, four)
    assert (history.voters, history.voters_offset, history.is_dynamic) == (four, 10, True)
    assert (history.voters_at(9), history.voters_at(10)) == (THREE, four)
    history.truncate_to(10)
    assert (history.voters, history.voters_offset) == (THREE, -1)
    with pytest.raises(InvariantViolated):
        history.set_voters(-1, four)


def test_voters_are_reached_by_named_listener():
    first, second = VoterEndpoint("A", "a", 1), VoterEndpoint("C", "c", 2)
    two = Voter(ReplicaKey(1), (first, second))
    assert two.peer_on("C") == Peer(1, "c", 2)
    assert two.peer_on("A") == two.peer_on("OTHER") == two.peer == Peer(1, "a", 1)


def test_voter_update_needs_changed_endpoints_or_versions():
    """Only exactly that directory counts: another one is not a voter."""
    assert not THREE.needs_update(voter(1))
    assert THREE.needs_update(voter(1, port=1))
    assert THREE.needs_update(voter(1)._replace(kraft_version_max=0))
    assert not THREE.needs_update(voter(1, 7, port=1))
    assert not THREE.needs_update(voter(9))


def test_version_range_includes_its_ends():
    only = voter(1)._replace(kraft_version_min=1, kraft_version_max=2)
    assert [only.supports(level) for level in range(4)] == [False, True, True, False]


def test_dynamic_quorum_needs_level_and_voter_set():
    history = QuorumHistory()
    assert (history.voters, history.kraft_version) == (VoterSet(), 0)
    history.set_voters(3, THREE)
    assert not history.is_dynamic, "a set alone"
    history.set_kraft_version(4, 1)
    assert (history.kraft_version, history.is_dynamic) == (1, True)
    history.truncate_to(4)
    assert (history.kraft_version, history.is_dynamic) == (0, False)


def test_emptied_log_has_no_voters():
    static = VoterSet.static([Peer(1)])
    history = QuorumHistory(static)
    history.set_kraft_version(3, 1)
    history.set_voters(3, THREE)
    history.clear()
    assert (history.voters, history.voters_offset, history.kraft_version) == (static, None, 0)
    assert (history.voters_at(9), history.kraft_version_at(9)) == (None, 0)


def test_unreachable_history_of_voters_is_dropped():
    """Otherwise a log with occasional changes would grow without bound."""
    history = QuorumHistory()
    for offset in range(10):
        history.set_kraft_version(offset, 1)
        history.set_voters(offset, THREE)
    history.trim_to(7)
    assert [entry.offset for entry in history._versions.entries] == [7, 8, 9]
    assert [entry.offset for entry in history._voters.entries] == [7, 8, 9]


@given(
    st.lists(st.integers(0, 30), unique=True, max_size=6).map(sorted),
    st.integers(0, 30),
    st.integers(0, 30),
)
def test_trimming_changes_no_later_answer(offsets, start, asked):
    """Compared with the obvious implementation: search all records up to the offset."""
    history = QuorumHistory()
    for offset in offsets:
        history.set_kraft_version(offset, offset)
    history.trim_to(start)
    said = [offset for offset in offsets if offset <= max(asked, start)]
    assert history.kraft_version_at(max(asked, start)) == (said[-1] if said else 0)
