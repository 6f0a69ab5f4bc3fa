"""A tenure's decisions about paths, and the tasks that it wakes, without any znode."""

import pytest
import trio

from tests.zkcompat import build
from tests.zkcompat.build import CLUSTER_ID, T1
from trimaran.zkcompat.mirroring.status import MirrorStatus
from trimaran.zkcompat.mirroring.tenure import RECHECK_MAX, MirrorFencedError, Tenure
from trimaran.zkcompat.sections.registry import sections_of
from trimaran.zkcompat.tree.claim import ClaimGuard, QuorumLeader
from trimaran.zkcompat.tree.operations import FoundZnode
from trimaran.zkcompat.znodes.cluster_id import ClusterId
from trimaran.zkcompat.znodes.controller import ControllerEpochZnode, ControllerZnode
from trimaran.zkcompat.znodes.migration import Migration
from trimaran.zkcompat.zookeeper.errors import TransactionRefusedError, UncertainOutcomeError

IMAGE = build.image_of(
    build.topic("t", T1), build.partition(T1, 0, [1]), build.config(2, "t", "retention.ms", "5")
)
CONFIG = b'{"version":1,"config":{"retention.ms":"5"}}'


class Companion:
    def __init__(self, held=(), spared=()):
        self.held, self.spared = held, spared

    def holds(self, path):
        return path in self.held

    def spares(self, path):
        return path in self.spared


@pytest.fixture
def tenure():
    companions = [Companion(["/a"], ["/b"]), Companion(["/c"], ["/d"])]
    return Tenure(None, CLUSTER_ID, sections_of(CLUSTER_ID), MirrorStatus(), companions)


def test_wanted_data_of_znode_comes_from_image(tenure):
    assert tenure.wanted("/config/topics/t", IMAGE) == CONFIG
    assert tenure.wanted("/config/topics/u", IMAGE) is None
    assert tenure.wanted("/nowhere", IMAGE) is None
    assert tenure.says("/config/topics/t", CONFIG, IMAGE)
    assert not tenure.says("/config/topics/t", b"{}", IMAGE)
    assert not tenure.says("/nowhere", None, IMAGE)


def test_any_companion_holds_entities_or_spares_znodes(tenure):
    assert [tenure.is_held(roots) for roots in (["/a"], ["/x", "/c"], ["/b"], [])] == [
        *(True, True, False, False)
    ]
    assert [tenure.is_spared(path) for path in ("/b", "/d", "/a", "/x")] == [
        *(True, True, False, False)
    ]


async def test_suspects_are_entities_up_to_a_bound(tenure):
    heard = []

    async def listen():
        await tenure.wait_suspects()
        heard.append(dict(tenure.suspects))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        await trio.testing.wait_all_tasks_blocked()
        tenure.recheck("/nowhere")
        assert tenure.suspects == {}
        tenure.recheck("/config/topics/t")
    assert list(heard[0]) == [("Topic", "t")]
    (section,) = heard[0].values()
    assert section.label == "Topic"
    assert RECHECK_MAX == 10_000
    for number in range(RECHECK_MAX):
        tenure.suspect(section, str(number))
    assert len(tenure.suspects) == RECHECK_MAX
    await tenure.wait_suspects()


async def test_wait_for_suspects_includes_their_comparison(tenure, autojump_clock):
    heard = []

    async def listen():
        await tenure.wait_no_suspects()
        heard.append(trio.current_time() - began)

    began = trio.current_time()
    tenure.recheck("/config/topics/t")
    tenure.comparing = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        await trio.sleep(1)
        tenure.suspects.clear()
        await trio.sleep(1)
        tenure.compared()
    assert heard == [2]
    assert tenure.comparing is False
    await tenure.wait_no_suspects()


async def test_image_waiter_wakes_when_image_is_written(tenure, autojump_clock):
    heard = []

    async def listen():
        found = await tenure.wait_shown(lambda image: image.provenance.offset >= 3)
        heard.append((found, trio.current_time() - began))

    began = trio.current_time()
    _, later = build.replay(IMAGE, build.broker(1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        await trio.sleep(1)
        tenure.published(build.image_of(build.broker(1)))
        await trio.sleep(1)
        tenure.published(later)
    assert heard == [(later, 2)]
    assert (tenure.shown, tenure.status.published_offset) == (later, 3)
    assert await tenure.wait_shown(lambda _: True) is later


class Keeper:
    """Contains the given znodes, refuses all transactions, and counts them by second."""

    session_id = 7

    def __init__(self, **znodes):
        self.znodes = {f"/{name}": FoundZnode(data) for name, data in znodes.items()}
        self.znodes[ClusterId.PATH] = FoundZnode(ClusterId(CLUSTER_ID).encode())
        self.transactions = []

    async def ensure(self, path, data):
        await trio.lowlevel.checkpoint()

    async def read(self, path, changed=None):
        await trio.lowlevel.checkpoint()
        return self.znodes.get(path)

    async def transact(self, steps, meanwhile=None):
        self.transactions.append(trio.current_time())
        raise TransactionRefusedError(2, "NoAuth")


@pytest.mark.parametrize("gone", [ControllerEpochZnode.PATH, Migration.PATH])
async def test_claim_with_vanished_znodes_is_uncertain(tenure, gone):
    tenure.keeper = Keeper(controller_epoch=b"1", migration=b"{}")
    del tenure.keeper.znodes[gone]
    with pytest.raises(UncertainOutcomeError, match="the claim's znodes vanished"):
        await tenure.claim(QuorumLeader(1, 1))
    assert tenure.keeper.transactions == []


async def test_overtaken_claim_is_not_repeated_for_next_leader(tenure):
    tenure.keeper = Keeper(controller_epoch=b"2", migration=b"{}")
    tenure.guard = ClaimGuard(1, 1, Migration(), 0)
    with pytest.raises(MirrorFencedError, match="another mirror holds the claim"):
        await tenure.claim(QuorumLeader(1, 1))
    assert tenure.keeper.transactions == []


async def test_failed_controller_repair_is_retried_each_second(tenure, autojump_clock):
    tenure.keeper, tenure.leader = Keeper(), QuorumLeader(1, 1)
    tenure.guard = ClaimGuard(1, 1, Migration(), 0)
    began = trio.current_time()
    with trio.move_on_after(3.5):
        await tenure.keep_controller()
    assert [round(at - began, 3) for at in tenure.keeper.transactions] == [0, 1, 2, 3]
    assert tenure.status.repairs == 0
    assert ControllerZnode.PATH not in tenure.keeper.znodes


async def test_resync_waits_for_uncompared_suspects(tenure, autojump_clock):
    tenure.recheck("/config/topics/t")
    with trio.move_on_after(1) as scope:
        await tenure.wait_no_suspects()
    assert scope.cancelled_caught


@pytest.mark.parametrize(
    ("offset", "dirty", "asked"), [(-1, False, []), (0, False, [0]), (5, False, [5]), (5, True, [])]
)
def test_previous_image_is_that_of_published_offset(tenure, offset, dirty, asked):
    found = []
    tenure.image_at = found.append
    tenure._image_of(Migration(offset=offset, dirty=dirty).encode())
    assert found == asked
