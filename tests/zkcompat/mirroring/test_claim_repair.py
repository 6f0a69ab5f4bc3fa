"""`/controller` belongs to the mirror: it is recreated when others delete or forge it, and checked by a
verification.
"""

import json

import pytest
import trio

from tests.zkcompat import build
from tests.zkcompat.rig import PATIENCE, Source, connected, differences, in_step, running, topics
from trimaran.zkcompat.comparing.verify import ReportedDifference, compare_claim
from trimaran.zkcompat.tree.claim import QuorumLeader, TransactionStep
from trimaran.zkcompat.tree.operations import FoundZnode
from trimaran.zkcompat.znodes.controller import ControllerEpochZnode, ControllerZnode
from trimaran.zkcompat.znodes.migration import Migration

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]

FORGED = ControllerZnode(99, 5, -1).encode()


@pytest.mark.parametrize(
    "steps",
    [
        [TransactionStep("delete", ControllerZnode.PATH)],
        [TransactionStep("set", ControllerZnode.PATH, FORGED)],
        [
            TransactionStep("delete", ControllerZnode.PATH),
            TransactionStep("create", ControllerZnode.PATH, FORGED),
        ],
        [
            TransactionStep("delete", ControllerZnode.PATH),
            TransactionStep("create", ControllerZnode.PATH, FORGED, ephemeral=True),
        ],
        [
            TransactionStep("delete", ControllerZnode.PATH),
            TransactionStep("create", ControllerZnode.PATH, b"\xff"),
        ],
        [
            TransactionStep("delete", ControllerZnode.PATH),
            TransactionStep("create", ControllerZnode.PATH, FORGED),
            TransactionStep("create", f"{ControllerZnode.PATH}/a", FORGED),
            TransactionStep("create", f"{ControllerZnode.PATH}/a/b"),
        ],
        [
            TransactionStep(
                "set", ControllerZnode.PATH, b'{"version":2,"brokerid":1,"timestamp":"--5"}'
            )
        ],
    ],
)
async def test_forged_controller_is_replaced_at_once(connect, steps):
    source = Source(build.broker(1), *topics(1))
    async with running(connect, source) as mirror, connected(connect) as person:
        await in_step(mirror, source)
        await person.transact(steps)
        with trio.fail_after(PATIENCE):
            await mirror.wait_status(lambda s: s.repairs == 1)
            while await differences(person, source):
                await trio.lowlevel.checkpoint()
        claim = await person.read(ControllerZnode.PATH)
        assert claim.owner == mirror.keeper.session_id
        assert ControllerZnode.decode(claim.data).broker_id == 1
        assert mirror.status.claims == 1
        source.say(build.fence(1))
        await in_step(mirror, source)
        assert await differences(person, source) == ()


async def test_children_of_forged_controller_do_not_prevent_claim(connect):
    source = Source(build.broker(1), *topics(1))
    async with connected(connect) as person:
        await person.ensure("/", None)
        await person.transact(
            [
                TransactionStep("create", ControllerZnode.PATH, FORGED),
                TransactionStep("create", f"{ControllerZnode.PATH}/a"),
            ]
        )
        async with running(connect, source) as mirror:
            await in_step(mirror, source)
            assert mirror.status.claims == 1


def test_verification_checks_the_claim():
    def found(**changes):
        znodes = {
            ControllerZnode.PATH: FoundZnode(ControllerZnode(1, 5, 3).encode(), owner=7),
            ControllerEpochZnode.PATH: FoundZnode(b"4"),
            Migration.PATH: FoundZnode(Migration().encode()),
        }
        return {**znodes, **{f"/{name}": znode for name, znode in changes.items()}}

    now_leads = QuorumLeader(1, 3)

    def wrong(leader=now_leads, **changes):
        present = {p: z for p, z in found(**changes).items() if z is not None}
        return [(d.kind, d.path) for d in compare_claim(present, leader)]

    assert wrong() == []
    assert wrong(leader=None) == []
    assert wrong(leader=QuorumLeader(1, 4)) == [("different", "/controller")]
    assert wrong(controller=None) == [("missing", "/controller")]
    assert wrong(controller=FoundZnode(ControllerZnode(1, 5, 3).encode())) == [
        ("different", "/controller")
    ]
    assert wrong(controller=FoundZnode(b"?", owner=7)) == [("different", "/controller")]
    assert wrong(controller_epoch=FoundZnode(b"x"), migration=None) == [
        ("different", "/controller_epoch"),
        ("missing", "/migration"),
    ]
    expected = "controller 2 of epoch 3"
    text = json.dumps(json.loads(ControllerZnode(1, 5, 3).encode()), separators=(",", ":"))
    assert list(compare_claim(found(), QuorumLeader(2, 3))) == [
        ReportedDifference("different", "/controller", expected, text)
    ]
