"""Precedence and sharing of quotas, and the number of remembered clients."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimaran.node.quotas import client_limits
from trimaran.node.quotas.client_limits import (
    IDLE_SECONDS,
    ClientQuota,
    ConnectionQuota,
    MutationQuota,
)
from trimaran.wire.transport.metrics.rate import Windows

USERS, CLIENTS = ["alice", "bob", None], ["a", "b", None]
# Kafka's documented order of precedence, as (user, client id); ABSENT if a quota does not depend on it.
ABSENT = "absent"
ORDER = [
    lambda user, client: (user, client),
    lambda user, _: (user, None),
    lambda user, _: (user, ABSENT),
    lambda _, client: (None, client),
    lambda _user, _client: (None, None),
    lambda _user, _client: (None, ABSENT),
    lambda _, client: (ABSENT, client),
    lambda _user, _client: (ABSENT, None),
]
ENTITIES = st.tuples(st.sampled_from([*USERS, ABSENT]), st.sampled_from([*CLIENTS, ABSENT])).filter(
    lambda pair: pair != (ABSENT, ABSENT)
)


def entity(user, client):
    parts = [("client-id", client)] if client != ABSENT else []
    return tuple(parts + ([("user", user)] if user != ABSENT else []))


def quota(**limits):
    made = ClientQuota(Windows())
    made.set_limits({(("user", user),): limit for user, limit in limits.items()})
    return made


@given(
    st.dictionaries(ENTITIES, st.integers(1, 9)),
    st.sampled_from(["alice", "bob", "carol"]),
    st.sampled_from(["a", "b", "c"]),
)
def test_most_specific_quota_applies(limits, user, client):
    made = ClientQuota(Windows())
    made.set_limits({entity(*pair): limit for pair, limit in limits.items()})
    wanted = next((limits[key] for of in ORDER if (key := of(user, client)) in limits), None)
    found = made.limit_of(user, client)
    assert (None if found is None else found[1]) == wanted


def test_clients_share_quota_of_their_user():
    made = quota(alice=100.0)
    assert made.use("alice", "a", 1000, 0.0) == 0
    assert made.use("alice", "b", 1000, 0.0) == 10
    assert made.use("bob", "a", 10_000, 0.0) == 0


def test_default_quota_applies_to_each_client_separately():
    made = ClientQuota(Windows())
    made.set_limits({(("client-id", None),): 100.0})
    assert made.use("alice", "a", 2000, 0.0) == 10
    assert made.use("alice", "b", 1000, 0.0) == 0
    assert made.use("alice", "", 9000, 0.0) == 0


def test_refused_use_is_not_counted():
    made = quota(alice=100.0)
    assert made.use_if_allowed("alice", "a", 2000, 0.0) == 10
    assert made.use_if_allowed("alice", "a", made.most_at_once("alice", "a"), 0.0) == 0
    assert made.use_if_allowed("alice", "a", 1, 0.0) > 0


def test_new_limit_applies_to_earlier_use():
    made = quota(alice=1000.0)
    made.use("alice", "a", 2000, 0.0)
    made.set_limits({(("user", "alice"),): 100.0})
    assert made.use("alice", "a", 0, 0.0) == 10


def test_idle_entries_go_when_names_are_long(monkeypatch):
    monkeypatch.setattr(client_limits, "NAMES_BYTES_MAX", 100_000)
    made = ClientQuota(Windows())
    made.set_limits({(("client-id", None),): 100.0})
    for number in range(9):
        made.use("alice", f"{'c' * 30_000}{number}", 1, float(number))
        made.use("alice", f"{'c' * 30_000}{number}", 1, float(number))
    assert len(made) == 3
    made.use("alice", "😀" + "c" * 20_000, 1, 10.0)  # four bytes a character
    assert len(made) == 1
    made.use("alice", "c", 1, 11.0)
    assert len(made) == 2


def test_idle_and_excess_clients_are_forgotten():
    made = ClientQuota(Windows(), owners_max=3)
    made.set_limits({(("client-id", None),): 100.0})
    for number in range(9):
        made.use("alice", f"c{number}", 1, float(number))
    assert len(made) == 3
    made.use("alice", "new", 1, IDLE_SECONDS + 100)
    assert len(made) == 1
    made.set_limits({})
    assert (len(made), made.is_set) == (0, False)


def test_addresses_have_own_or_default_quota():
    made = ConnectionQuota(Windows())
    made.set_limits({(("ip", None),): 1.0, (("ip", "10.0.0.7"),): 2.0})
    for ip, allowed in (("10.0.0.7", 20), ("10.0.0.8", 10), ("::1", 10)):
        assert [made.use_if_allowed(ip, 0.0) for _ in range(allowed)] == [0] * allowed
        assert made.use_if_allowed(ip, 0.0) > 0
        assert made.use_if_allowed(ip, 11.0) == 0


def test_refused_connections_do_not_count():
    made = ConnectionQuota(Windows())
    made.set_limits({(("ip", None),): 1.0})
    told = [made.use_if_allowed("10.0.0.7", 0.0) for _ in range(100)]
    assert told == pytest.approx([0] * 10 + [1.0] * 90)


def test_no_address_is_remembered_without_quota():
    made = ConnectionQuota(Windows())
    made.set_limits({(("ip", "10.0.0.7"),): 1.0})
    assert [made.use_if_allowed("10.0.0.8", 0.0) for _ in range(100)] == [0] * 100
    assert len(made) == 0


def test_mutations_are_counted_only_while_tokens_remain():
    made = MutationQuota(Windows(11, 1.0))
    made.set_limits({(("user", "alice"),): 1.0})
    assert [made.use_if_allowed("alice", "a", 10, 0.0) for _ in range(4)] == [0, 0, 9, 9]
    assert made.use_if_allowed("alice", "a", 10, 9.0) == 0
    assert made.use("alice", "a", 5, 9.0) == 15
    assert made.use("bob", "a", 1000, 9.0) == 0


@pytest.mark.parametrize("limit", [math.nan, math.inf])
def test_nan_or_infinite_quota_limits_nothing(limit):
    """Kafka stores both. Such a quota sets no limit, and a less specific quota does not apply instead."""
    made = quota(alice=limit)
    made.set_limits({(("user", "alice"),): limit, (("user", None),): 1.0})
    assert [made.use("alice", "a", 1e9, now) for now in (0.0, 0.0, 5.0)] == [0.0] * 3
    assert made.use_if_allowed("alice", "a", 1e9, 6.0) == 0.0
    most = made.most_at_once("alice", "a")
    assert most is None or most == math.inf
    mutations = MutationQuota(Windows())
    mutations.set_limits({(("user", "alice"),): limit})
    assert [mutations.use("alice", "a", 1e9, now) for now in (0.0, 0.0, 5.0)] == [0.0] * 3
    connections = ConnectionQuota(Windows())
    connections.set_limits({(("ip", None),): limit})
    assert [connections.use_if_allowed("::1", 0.0) for _ in range(100)] == [0.0] * 100
