"""The ZooKeeper in memory behaves like a real one: the same steps by two clients of each have the same results."""

import random

import pytest

from tests.zkcompat.rig import connected
from tests.zkcompat.zookeeper.in_memory import Ensemble
from trimaran.zkcompat.tree.claim import TransactionStep
from trimaran.zkcompat.zookeeper import session
from trimaran.zkcompat.zookeeper.errors import (
    PathRefusedError,
    TransactionRefusedError,
    UncertainOutcomeError,
)

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]

PATHS = ["/a", "/b", "/a/c", "/a/d", "/a/c/e", "/b/n_"]
STEPS = 300
OWN, OTHER = [("digest", "own:secret")], [("digest", "other:secret")]


async def test_random_steps_have_the_same_results(connect, monkeypatch):
    for seed in range(3):
        with monkeypatch.context() as patch:
            patch.setattr(session, "make_client", Ensemble(lambda: 0).client)
            ours = await answers("h/chroot", seed)
        assert ours == await answers(f"{connect}/{seed}", seed)


async def answers(connect, seed):
    """Returns the outcome of each of many steps."""
    async with (
        connected(connect, auth=OWN, secured=True) as one,
        connected(connect, auth=OTHER) as other,
    ):
        prng, told = random.Random(seed), []
        await one.ensure("/", None)
        await one.ensure("/consumers", None)
        for number in range(STEPS):
            call = step(prng.choice([one, other]), prng)
            told.append((number, await outcome(call, [one, other])))
        return told


def step(keeper, prng):
    path = prng.choice(PATHS)
    parent = prng.choice(["/", "/a", "/b", "/a/c"])
    return prng.choice(
        [
            lambda: keeper.transact([some_step(prng) for _ in range(prng.randrange(1, 4))]),
            lambda: keeper.transact([some_step(prng)]),
            lambda: keeper.ensure(path, prng.choice([None, b"", b"x"])),
            lambda: keeper.put_own(path, b"own"),
            lambda: keeper.hide(path),
            lambda: keeper.read(path),
            lambda: keeper.children(parent),
            lambda: keeper.read_tree(["/a"], ["/b"]),
            lambda: keeper.read_many(PATHS),
            lambda: keeper.acls([path]),
        ]
    )


def some_step(prng):
    kind = prng.choice(["create", "create", "create", "set", "delete", "check"])
    path = prng.choice(PATHS)
    options = {"version": prng.choice([-1, -1, 0, 1])}
    if kind == "create":
        options = {
            "data": prng.choice([None, b"x"]),
            "ephemeral": prng.random() < 0.2,
            "sequential": path.endswith("_"),
            "secret": prng.random() < 0.2,
        }
    elif kind == "set":
        options["data"] = b"y"
    return TransactionStep(kind, path, **options)


async def outcome(call, keepers):
    try:
        found = await call()
    except TransactionRefusedError as error:
        return error.index, error.reason
    except PathRefusedError as error:
        return error.path, error.reason
    except UncertainOutcomeError as error:
        return str(error).partition(":")[0]
    return plain(found, [keeper.session_id for keeper in keepers])


def plain(found, sessions):
    """Removes clocks and zxids, and replaces sessions by their owners."""
    if isinstance(found, dict):
        return {path: plain(znode, sessions) for path, znode in sorted(found.items())}
    if hasattr(found, "created_zxid"):
        owner = sessions.index(found.owner) if found.owner else None
        is_unwritten = found.created_zxid == found.modified_zxid
        return found.data, owner, found.version, found.refusal, found.children, is_unwritten
    if isinstance(found, list) and found and isinstance(found[0], list):
        return [
            [(entry.perms, entry.id.scheme) for entry in acl] for acl in found
        ]  # ids are hidden
    return found
