"""Authorization: Apache Kafka's StandardAuthorizer and ours get the same thousands of requests.

Each set of ACLs is drawn from a seed, as are the version and the content of each request, for each of three users and
from one of two addresses. The responses must be equal, error code by error code and item by item. The order of items
and the texts may differ, because no client uses them; such differences are only reported.
"""

import os
import random
from collections import Counter

import pytest

from tests.interop.authorization.answers import comparable, differences, orders, texts
from tests.interop.authorization.peers import eventually, two_peers
from tests.interop.authorization.requests import (
    BY_NAME,
    LISTENERS,
    LOWEST,
    UNKNOWN_ID,
    World,
    request_of,
)
from tests.interop.authorization.worlds import HOSTS, ask, drawn_acls, populate, set_acls
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import ErrorCode

SEED = int(os.environ.get("TRIMARAN_SEED", "1"))
SETS = int(os.environ.get("TRIMARAN_ACL_SETS", "20"))
REFUSALS = [int(entry) for entry in ErrorCode if entry.name.endswith("AUTHORIZATION_FAILED")]
USERS = ("alice", "bob", "carol", "root")


@pytest.fixture(scope="module", params=[False, True], ids=["denied", "everyone"])
def peers(request, tmp_path_factory):
    """Starts the peers for each value of `allow.everyone.if.no.acl.found`."""
    directory = tmp_path_factory.mktemp("authorization")
    with two_peers(directory, everyone=request.param) as found:
        yield found


@pytest.fixture(scope="module")
def worlds(peers):
    made = {}
    for peer in peers:
        world = made[peer.name] = World(None)
        world.ids = populate(peer)
    return made


def versions(peers, listener, name):
    """Returns the versions that both serve."""
    ranges = [peer.connection(listener, "root").versions.get(BY_NAME[name].KEY) for peer in peers]
    if None in ranges:
        return range(0)
    lows = (low for low, _ in ranges)
    return range(max(LOWEST.get(name, 0), *lows), min(high for _, high in ranges) + 1)


# Responses that may differ although both refuse, with the reason.
NAMED = {
    ("CLIENTS", "DescribeUserScramCredentials", 0): "Kafka adds a result without a name",
    ("ADMINS", "Fetch", 12): "below version 13 Kafka tells it of each partition, too",
}


# Requests that Kafka refuses with this code after the checks of access, and our node serves.
SERVED_HERE = {"StreamsGroupTopologyDescriptionUpdate": ErrorCode.UNSUPPORTED_VERSION}


def is_named(question, theirs, ours):
    """Whether this difference is listed, and both sides refuse the whole request, or neither refuses access."""
    if ("error_code", SERVED_HERE.get(question[2])) in theirs:
        return not any(("error_code", code) in ours for code in REFUSALS)
    refusal = ("error_code", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return question[1:4] in NAMED and refusal in theirs and refusal in ours


def tokens_of(peer):
    """Returns the number of tokens that the broker knows; new ones may be missing at first."""
    return len(ask(peer, "DescribeDelegationToken", 1, {"owners": None}).tokens)


def asked_of_all(peers, worlds, rng, number):
    """Sends the requests of one set of ACLs; returns the differences of the responses."""
    for listener, builders in LISTENERS.items():
        for name in builders:
            if name == "DescribeDelegationToken":
                eventually("tokens are known", lambda: len(set(map(tokens_of, peers))) == 1)
            for user in USERS:
                served = versions(peers, listener, name)
                if not served:
                    continue
                version, host, seed = rng.choice(served), rng.choice(HOSTS), rng.random()
                told, said = [], []
                for peer in peers:
                    world = worlds[peer.name]
                    request = request_of(name, builders, version, world, seed)
                    answer = peer.ask(listener, user, host, request, version)
                    names = {topic_id: key for key, topic_id in world.ids.items()}
                    names |= {NIL_UUID: "none", UNKNOWN_ID: "unknown"}
                    told.append(comparable(answer, names))
                    said.append((dict(orders(answer)), dict(texts(answer))))
                yield (number, listener, name, version, user, host, request), told, said


def said_otherwise(question, theirs, ours):
    """Returns differences in the order of items and in texts: the field, and both values."""
    for what, left, right in zip(("order", "text"), theirs, ours, strict=True):
        for path, value in left.items():
            other = right.get(path)
            if other is None or value == other or (what == "order" and set(value) != set(other)):
                continue
            fields = ".".join(path[::2])
            yield f"{what} of {question[2]}.{fields}", (value, other)


def test_ours_and_kafkas_answers_are_equal(peers, worlds):
    rng = random.Random(SEED)
    asked, refused, found, words, examples = Counter(), 0, [], Counter(), {}
    for number in range(SETS):
        acls = drawn_acls(rng)
        for peer in peers:
            set_acls(peer, acls)
        for question, (theirs, ours), said in asked_of_all(peers, worlds, rng, number):
            asked[question[2]] += 1
            for what, both in said_otherwise(question, *said):
                words[what] += 1
                examples.setdefault(what, both)
            refused += any(f"error_code', {code})" in repr(theirs) for code in REFUSALS)
            differing = list(differences(theirs, ours))
            if differing and not is_named(question, theirs, ours):
                found.append((question, acls, differing))
    print(f"{asked.total()} questions of {len(asked)} APIs, {refused} refused, {len(found)} differ")
    for what, count in words.most_common():
        print(
            f"    another {what} {count} times: Kafka {examples[what][0]!r}, ours {examples[what][1]!r}"
        )
    by_api = Counter((question[1], question[2]) for question, _, _ in found)
    for (listener, name), count in by_api.most_common():
        question, acls, differing = next(item for item in found if item[0][1:3] == (listener, name))
        print(f"{name} on {listener}: {count} differ, as {question}")
        for path, theirs, ours in differing[:4]:
            print(f"    {'.'.join(path)}: Kafka {theirs!r}, ours {ours!r}")
        for acl in acls:
            print(f"    {acl}")
    assert not found
