"""The model as a test: a complete search of a small instance, and bugs that it must find with the shortest trail."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import pytest

from tests.model.search import Broken, search
from tests.model.world import SYMMETRIES, Bounds, World
from tests.simulation.mutants.replication import votes_twice
from trimaran.quorum.raft import following, leader_state
from trimaran.quorum.raft.roles import Candidate
from trimaran.quorum.raft.voters import VoterSet

SMALL = Bounds(epochs=1, proposals=0, crashes=0, strays=0)


def test_small_model_breaks_no_invariant() -> None:
    count = search(SMALL)
    assert count.is_complete
    assert count.states == 1904, "another core or another model: look at the difference"
    for name in ("R1", "R2", "R4", "R5", "R6", "R6 durable", "R8"):
        assert count.evaluations[name], f"{name} had nothing to say"


def test_renamed_world_has_the_same_key() -> None:
    """Only one of three first candidates is examined, and only one of two first grants."""
    world = World.first(SMALL)
    reached = {after.key() for _label, after in world.successors(SMALL)}
    assert len(list(world.successors(SMALL))) == 6
    assert len(reached) == 1
    assert len(SYMMETRIES) == 6


def _fetch_before_flush() -> AbstractContextManager[Any]:
    return mock.patch.object(following, "_is_flushed", return_value=True)


def _one_replica_commits() -> AbstractContextManager[Any]:
    return mock.patch.object(leader_state, "majority_offset", lambda descending: descending[0])


def _minority_elects() -> AbstractContextManager[Any]:
    return mock.patch.object(VoterSet, "majority", property(lambda self: 1))


@pytest.mark.parametrize(
    ("patch", "bounds", "invariant"),
    [
        (_fetch_before_flush, SMALL, "R6"),
        (_one_replica_commits, SMALL, "R6"),
        (_minority_elects, SMALL, "R1"),
        (votes_twice, SMALL, "R3"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_planted_bug_is_found(
    patch: Callable[[], AbstractContextManager[Any]], bounds: Bounds, invariant: str
) -> None:
    with patch(), pytest.raises(Broken) as found:
        search(bounds, states_max=20_000)
    assert str(found.value).split()[0].startswith(invariant)
    assert found.value.trail, "with the way to it"


def test_no_candidate_leads_without_a_vote() -> None:
    """No replica leads after one step: an election takes another replica's vote."""
    world = World.first(SMALL)
    for _label, after in world.successors(SMALL):
        assert any(isinstance(r.raft.role, Candidate) for r in after.replicas.values())
        assert not after.leaders
