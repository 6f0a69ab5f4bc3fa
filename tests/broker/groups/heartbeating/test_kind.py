"""Replay of the records of all kinds whose members heartbeat: groups begin, hold members, and end."""

import pytest

from trimaran.broker.groups.consumer import records as consumer
from trimaran.broker.groups.consumer.member import ConsumerMember
from trimaran.broker.groups.registry import KINDS
from trimaran.broker.groups.share import records as share
from trimaran.broker.groups.share.member import ShareMember
from trimaran.broker.groups.store import GroupStore
from trimaran.broker.groups.streams import records as streams
from trimaran.broker.groups.streams.member import StreamsMember
from trimaran.broker.groups.streams.tasks import MemberTasks
from trimaran.wire.identity import GroupEpoch

PARTITIONS = {b"t" * 16: frozenset({0, 1})}
KINDS_OF_MEMBERS = {
    "consumer": (consumer, ConsumerMember, PARTITIONS),
    "share": (share, ShareMember, PARTITIONS),
    "streams": (streams, StreamsMember, MemberTasks(active={"0": frozenset({0, 1})})),
}
each_kind = pytest.mark.parametrize("kind", KINDS_OF_MEMBERS)


def replay(store, records):
    for record in records:
        store.replay(0, record)


@each_kind
def test_group_begins_and_ends_with_its_records(kind):
    records = KINDS_OF_MEMBERS[kind][0].RECORDS
    store = GroupStore(KINDS)
    store.emptied["g"] = True
    end = records.without_assignment_epoch("g")
    replay(store, [end])
    assert "g" not in store.of(kind)
    assert "g" in store.emptied
    replay(store, [records.assignment_epoch("g", GroupEpoch(4), 99)])
    group = store.of(kind)["g"]
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (4, 99)
    assert (group.has_assignment, group.has_epoch, group.is_gone) == (True, False, False)
    assert "g" not in store.emptied
    replay(store, [end])
    assert not store.knows("g")
    assert (store.account.bytes, store.account.known_bytes) == (0, 0)


@each_kind
def test_memory_of_members_is_charged_to_principals(kind):
    module, member_class, target = KINDS_OF_MEMBERS[kind]
    records, store = module.RECORDS, GroupStore(KINDS)
    store.account.owned_by(("g", "a"), "User:x")
    for member_id in ("a", "b"):
        member = member_class(member_id, client_id="c")
        replay(store, [records.member("g", member), records.target("g", member_id, target)])
    group = store.of(kind)["g"]
    assert store.account.bytes == group.held_bytes
    assert store.account.by_principal["User:x"] == group.held_bytes / 2
    replay(store, list(records.without_member("g", "a")))
    assert list(group.members) == list(group.target) == ["b"]
    assert store.account.bytes == group.held_bytes
    assert "User:x" not in store.account.by_principal
    replay(store, list(module.group_tombstones(group)))
    assert not store.knows("g")
    assert (store.account.bytes, group.held_bytes) == (0, 0)


@each_kind
@pytest.mark.parametrize("first", ["member", "target"])
def test_either_record_of_a_member_is_charged(kind, first):
    module, member_class, target = KINDS_OF_MEMBERS[kind]
    records, store = module.RECORDS, GroupStore(KINDS)
    store.account.owned_by(("g", "a"), "User:x")
    both = {
        "member": records.member("g", member_class("a", client_id="c")),
        "target": records.target("g", "a", target),
    }
    replay(store, [both.pop(first)])
    alone = store.of(kind)["g"].held_bytes
    assert store.account.by_principal["User:x"] == store.account.bytes == alone > 0
    replay(store, both.values())
    whole = store.of(kind)["g"].held_bytes
    assert store.account.by_principal["User:x"] == store.account.bytes == whole > alone
