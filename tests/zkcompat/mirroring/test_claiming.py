"""The requests of a claim to ZooKeeper, call by call, and a tenure's reaction to each refusal."""

import pytest
import trio

from tests.zkcompat import build
from tests.zkcompat.build import CLUSTER_ID
from trimaran.zkcompat.mirroring import tenure as module
from trimaran.zkcompat.mirroring.status import MirrorStatus
from trimaran.zkcompat.mirroring.tenure import (
    MirrorFencedError,
    StepRefusedError,
    Tenure,
    WrongClusterError,
    check_cluster,
)
from trimaran.zkcompat.sections.registry import sections_of
from trimaran.zkcompat.tree.claim import ClaimGuard, QuorumLeader, TransactionStep
from trimaran.zkcompat.tree.operations import FoundZnode
from trimaran.zkcompat.znodes.cluster_id import ClusterId
from trimaran.zkcompat.znodes.controller import ControllerEpochZnode, ControllerZnode
from trimaran.zkcompat.znodes.migration import Migration
from trimaran.zkcompat.zookeeper.errors import PathRefusedError, TransactionRefusedError

NOW_MS = 5000
ID = ClusterId(CLUSTER_ID).encode()
STATE = Migration(controller_id=8, controller_epoch=8, offset=3, epoch=2)


class Keeper:
    """Records the requests; creates missing znodes, as ZooKeeper does."""

    session_id = 7

    def __init__(self, **znodes):
        self.znodes = {f"/{name}": znode for name, znode in znodes.items()}
        self.calls = []
        self.refusal = None

    async def ensure(self, path, data):
        await trio.lowlevel.checkpoint()
        self.calls.append(("ensure", path, data))
        self.znodes.setdefault(path, FoundZnode(data))

    async def read(self, path, changed=None):
        await trio.lowlevel.checkpoint()
        self.calls.append(("read", path))
        return self.znodes.get(path)

    async def read_tree(self, roots, singles):
        await trio.lowlevel.checkpoint()
        self.calls.append(("tree", *roots))
        (root,) = roots
        return {
            path: znode for path, znode in self.znodes.items() if f"{path}/".startswith(f"{root}/")
        }

    async def transact(self, steps, meanwhile=None):
        await trio.lowlevel.checkpoint()
        self.calls.append(("transact", *steps))
        if self.refusal is not None:
            raise TransactionRefusedError(*self.refusal)


@pytest.fixture(autouse=True)
def _clock(monkeypatch):
    monkeypatch.setattr(module, "now_ms", lambda: NOW_MS)


def tenure_of(keeper, **members):
    return Tenure(keeper, CLUSTER_ID, sections_of(CLUSTER_ID), MirrorStatus(), **members)


CLAIM = ControllerZnode(1, NOW_MS, 4).encode()
PREPARED = [
    ("ensure", "/", None),
    ("ensure", "/cluster", None),
    ("ensure", "/cluster/id", ID),
    ("read", "/cluster/id"),
    ("ensure", "/controller_epoch", b"0"),
    ("ensure", "/migration", Migration().encode()),
    ("read", "/controller_epoch"),
    ("read", "/controller"),
    ("read", "/migration"),
]


def claimed(*steps, epoch=0, version=0, state=None, dirty=True):
    known = state or Migration()
    left = Migration(
        controller_id=1,
        controller_epoch=4,
        offset=known.offset,
        epoch=known.epoch,
        dirty=dirty,
    )
    return (
        "transact",
        *(step for step in steps if step.path.count("/") > 1),
        TransactionStep("set", "/controller_epoch", b"%d" % (epoch + 1), version),
        *(step for step in steps if step.path.count("/") == 1),
        TransactionStep("create", "/controller", CLAIM, ephemeral=True),
        TransactionStep("set", "/migration", left.encode(), version),
    )


async def test_first_claim_creates_missing_znodes_in_order():
    tenure = tenure_of(keeper := Keeper())
    await tenure.claim(QuorumLeader(1, 4))
    assert keeper.calls == [*PREPARED, claimed()]
    assert (tenure.known, tenure.written_before, tenure.shown_before) == (False, 0, None)
    assert tenure.leader == QuorumLeader(1, 4)
    assert (tenure.status.claims, tenure.status.controller_epoch) == (1, 1)
    assert (tenure.guard.controller_epoch_version, tenure.guard.migration_version) == (1, 1)


@pytest.mark.parametrize(("offset", "is_known"), [(-1, False), (0, True), (3, True)])
async def test_published_offset_shows_a_previous_mirror(offset, is_known):
    state = Migration(controller_id=8, controller_epoch=8, offset=offset, epoch=2)
    keeper = Keeper(
        controller_epoch=FoundZnode(b"6", version=9),
        migration=FoundZnode(state.encode(), version=9, modified_zxid=77),
        controller=FoundZnode(ControllerZnode(8, 1, 8).encode(), owner=3, version=2),
    )
    image = build.image_of(build.broker(1))
    tenure = tenure_of(keeper, image_at={offset: image}.get if is_known else lambda _: image)
    await tenure.claim(QuorumLeader(1, 4))
    gone = TransactionStep("delete", "/controller", version=2)
    assert keeper.calls == [*PREPARED, claimed(gone, epoch=6, version=9, state=state)]
    assert (tenure.known, tenure.written_before) == (is_known, 77)
    assert tenure.shown_before is (image if is_known else None)
    assert tenure.status.controller_epoch == 7


async def test_children_of_orphaned_controller_are_deleted_first(monkeypatch):
    keeper = Keeper(
        controller=FoundZnode(b"", version=2),
        **{"controller/a": FoundZnode(b""), "controller/a/b": FoundZnode(b"")},
    )
    await tenure_of(keeper).claim(QuorumLeader(1, 4))
    steps = [TransactionStep("delete", f"/controller/{path}") for path in ("a/b", "a")]
    gone = TransactionStep("delete", "/controller", version=2)
    assert keeper.calls[-2:] == [("tree", "/controller"), claimed(*steps, gone)]
    monkeypatch.setattr(module, "CONTROLLER_CHILDREN_MAX", 1)
    assert await tenure_of(keeper)._clear_controller() == steps[1:]


def test_thousand_children_are_deleted_in_one_transaction():
    assert module.CONTROLLER_CHILDREN_MAX == 1000


async def test_claim_for_next_leader_keeps_tree_state():
    tenure = tenure_of(keeper := Keeper())
    await tenure.claim(QuorumLeader(1, 3))
    tenure.shown, tenure.known, tenure.written_before = build.image_of(build.broker(1)), True, 5
    keeper.znodes["/controller_epoch"] = FoundZnode(b"1", version=1)
    keeper.znodes["/migration"] = FoundZnode(STATE.encode(), version=1, modified_zxid=99)
    keeper.calls.clear()
    await tenure.claim(QuorumLeader(1, 4))
    assert keeper.calls == [*PREPARED, claimed(epoch=1, version=1, state=STATE, dirty=False)]
    assert (tenure.known, tenure.written_before, tenure.status.claims) == (True, 5, 2)


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        ("BadVersion", MirrorFencedError),
        ("NoNode", MirrorFencedError),
        ("NodeExists", MirrorFencedError),
        ("NoAuth", PathRefusedError),
    ],
)
async def test_refused_claim_is_overtaken_or_forbidden(reason, error):
    tenure = tenure_of(keeper := Keeper())
    keeper.refusal = (1, reason)
    with pytest.raises(error, match="/controller"):
        await tenure.claim(QuorumLeader(1, 4))
    assert (tenure.guard, tenure.leader, tenure.status.claims) == (None, None, 0)
    assert tenure.status.controller_epoch == -1


GUARD = ClaimGuard(2, 5, STATE, 6)
SET = TransactionStep("set", "/a", b"1")
PROOF = (
    TransactionStep("check", "/controller_epoch", version=5),
    TransactionStep("set", "/migration", STATE.encode(), 6),
)


@pytest.mark.parametrize(
    ("index", "reason", "error", "told"),
    [
        (0, "BadVersion", MirrorFencedError, r"another mirror holds the claim \(BadVersion\)"),
        (1, "NoNode", MirrorFencedError, r"another mirror holds the claim \(NoNode\)"),
        (0, "NoAuth", PathRefusedError, "/controller_epoch"),
        (1, "NoAuth", PathRefusedError, "/migration"),
        (2, "BadVersion", StepRefusedError, "set /a: BadVersion"),
        (3, "NoNode", StepRefusedError, "delete /b: NoNode"),
    ],
)
async def test_refused_transaction_moves_no_guard(index, reason, error, told):
    tenure = tenure_of(keeper := Keeper(), guard=GUARD)
    keeper.refusal = (index, reason)
    steps = [SET, TransactionStep("delete", "/b")]
    with pytest.raises(error, match=told) as raised:
        await tenure.transact(steps)
    assert keeper.calls == [("transact", *PROOF, *steps)]
    assert (tenure.guard, tenure.status.transactions) == (GUARD, 0)
    if error is StepRefusedError:
        found = raised.value
        assert (found.index, found.step, found.reason) == (index - 2, steps[index - 2], reason)


async def test_transaction_moves_guard_to_new_state():
    tenure = tenure_of(keeper := Keeper(), guard=GUARD)
    await tenure.transact([SET])
    assert tenure.guard == ClaimGuard(2, 5, STATE, 7)
    left = Migration(controller_id=1, controller_epoch=4, offset=9, epoch=3)
    await tenure.transact([SET], left)
    assert tenure.guard == ClaimGuard(2, 5, left, 8)
    assert keeper.calls == [
        ("transact", *PROOF, SET),
        ("transact", PROOF[0], TransactionStep("set", "/migration", left.encode(), 7), SET),
    ]
    assert tenure.status.transactions == 2


@pytest.mark.parametrize(
    ("data", "told"),
    [(ID, None), (ClusterId("other").encode(), "cluster other"), (b"?", "unreadable")],
)
async def test_tree_belongs_to_the_cluster_it_names(data, told):
    keeper = Keeper(**{"cluster/id": FoundZnode(data)})
    if told is None:
        await check_cluster(keeper, CLUSTER_ID)
    else:
        with pytest.raises(WrongClusterError, match=told):
            await check_cluster(keeper, CLUSTER_ID)
    assert keeper.calls == [("read", "/cluster/id")]


async def test_tree_without_cluster_id_may_become_ours():
    await check_cluster(keeper := Keeper(), CLUSTER_ID)
    assert keeper.calls == [("read", "/cluster/id")]


@pytest.mark.parametrize(
    ("data", "owner", "is_ours"),
    [
        (ControllerZnode(1, 99, 4).encode(), 7, True),
        (ControllerZnode(1, 99, 4).encode(), 8, False),
        (ControllerZnode(2, 99, 4).encode(), 7, False),
        (ControllerZnode(1, 99, 5).encode(), 7, False),
        (b"?", 7, False),
        (None, 0, False),
    ],
)
async def test_controller_is_ours_by_session_broker_and_epoch(data, owner, is_ours):
    tenure = tenure_of(Keeper())
    await tenure.claim(QuorumLeader(1, 4))
    assert tenure._is_ours(data, owner) is is_ours


@pytest.mark.parametrize("is_there", [False, True])
async def test_controller_is_recreated_in_one_transaction(is_there):
    tenure = tenure_of(keeper := Keeper(), guard=GUARD, leader=QuorumLeader(1, 4))
    keeper.znodes[f"{ControllerZnode.PATH}/x"] = FoundZnode(b"")
    assert await tenure._replace_controller(is_there=is_there)
    gone = [TransactionStep("delete", "/controller/x"), TransactionStep("delete", "/controller")]
    made = TransactionStep("create", "/controller", CLAIM, ephemeral=True)
    assert keeper.calls[-1] == ("transact", *PROOF, *(gone if is_there else []), made)


async def test_unreadable_controller_belongs_to_no_session():
    keeper = Keeper()

    async def refuse(path, changed):
        await trio.lowlevel.checkpoint()
        raise PathRefusedError(path, "NoAuth")

    keeper.read = refuse
    assert await tenure_of(keeper)._read_controller(lambda: None) == (None, 0)


def test_controller_is_recreated_ten_times_a_second():
    assert (module.CONTROLLER_PAUSE_SECONDS, module.CONTROLLER_RETRY_SECONDS) == (0.1, 1.0)
    assert ControllerEpochZnode.PATH == "/controller_epoch"
