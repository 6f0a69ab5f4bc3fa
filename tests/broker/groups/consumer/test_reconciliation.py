"""A member's next step towards its target, from each state that it can be in."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from trimaran.broker.groups.consumer.member import ConsumerMember, MemberState
from trimaran.broker.groups.consumer.reconciliation import owned_partitions, reconcile
from trimaran.wire.errors import ErrorCode, KafkaError

T, U = b"t" * 16, b"u" * 16
S = MemberState


def step(member, target_epoch, target, *, reported=None, owners=MappingProxyType({}), **more):
    target = {topic_id: frozenset(partitions) for topic_id, partitions in target.items()}
    return reconcile(member, target_epoch, target, owners, reported, **more)


def member(epoch, assigned=(), revoking=(), state=S.STABLE, previous=0):
    return ConsumerMember(
        "a",
        epoch=epoch,
        previous_epoch=previous,
        state=state,
        assigned={T: dict.fromkeys(assigned, 1)} if assigned else {},
        revoking={T: dict.fromkeys(revoking, 1)} if revoking else {},
    )


def test_member_at_target_epoch_has_no_step():
    at_rest = member(3, [0, 1])
    assert step(at_rest, 3, {T: [0]}) is at_rest


def test_unsubscribed_partitions_are_revoked_within_epoch():
    found = step(member(3, [0, 1], previous=2), 3, {T: [0]}, gives_up=True)
    assert (found.state, found.epoch, found.previous_epoch) == (S.UNREVOKED_PARTITIONS, 3, 2)
    assert (found.assigned, found.revoking) == ({T: {0: 1}}, {T: {1: 1}})


def test_unfinished_revocation_is_requested_again():
    asked = member(2, [0], [1], S.UNREVOKED_PARTITIONS)
    for reported in (None, {T: frozenset([0, 1])}, {T: frozenset([1])}):
        assert step(asked, 5, {T: [0]}, reported=reported) is asked


@pytest.mark.parametrize(("target_epoch", "reached"), [(2, 2), (3, 3), (5, 3)])
def test_finished_revocation_advances_towards_the_target(target_epoch, reached):
    """Revocations for an even newer target are requested from there."""
    asked = member(2, [0], [1], S.UNREVOKED_PARTITIONS)
    found = step(asked, target_epoch, {U: [0]}, reported={T: frozenset([0])})
    assert (found.state, found.epoch) == (S.UNREVOKED_PARTITIONS, reached)
    assert found.previous_epoch == (0 if reached == 2 else 2)
    assert (found.assigned, found.revoking) == ({}, {T: {0: 1}})


def test_member_without_excess_partitions_takes_its_target():
    asked = member(2, [0], [1], S.UNREVOKED_PARTITIONS)
    found = step(asked, 5, {T: [0, 2]}, reported={T: frozenset([0])})
    assert (found.state, found.epoch, found.previous_epoch) == (S.STABLE, 5, 2)
    assert (found.assigned, found.revoking) == ({T: {0: 1, 2: 5}}, {})


def test_free_partitions_are_assigned_others_awaited():
    found = step(member(2, [0]), 3, {T: [0, 1, 2]}, owners={T: {2: "b"}})
    assert (found.state, found.epoch) == (S.UNRELEASED_PARTITIONS, 3)
    assert found.assigned == {T: {0: 1, 1: 3}}
    later = step(found, 3, {T: [0, 1, 2]})
    assert (later.state, later.assigned) == (S.STABLE, {T: {0: 1, 1: 3, 2: 3}})


@pytest.mark.parametrize("reported", [None, {T: frozenset([0])}])
def test_unknown_member_state_restarts_the_member(reported):
    unknown = member(4, [0], state=S.UNKNOWN)
    with pytest.raises(KafkaError) as refusal:
        step(unknown, 5, {T: [1]}, reported=reported)
    assert refusal.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    found = step(unknown, 5, {T: [1]}, reported={})
    assert (found.state, found.epoch, found.assigned) == (S.STABLE, 5, {T: {1: 5}})


def test_partitions_reported_twice_are_merged():
    assert owned_partitions(None) is None
    assert owned_partitions([]) == {}
    twice = owned_partitions([(T, [0, 1]), (U, [0]), (T, [2])])
    assert twice == {T: frozenset([0, 1, 2]), U: frozenset([0])}
