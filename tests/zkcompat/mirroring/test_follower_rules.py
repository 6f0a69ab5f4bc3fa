"""The follower's writes, comparisons and settled refusals, decision by decision, without any znode."""

from types import SimpleNamespace

import pytest
import trio

from tests.zkcompat import build
from tests.zkcompat.build import CLUSTER_ID
from trimaran.quorum.metadata.image import EMPTY
from trimaran.zkcompat.comparing.quarantine import Quarantine
from trimaran.zkcompat.comparing.tree_parts import TreePart
from trimaran.zkcompat.mirroring.follower import ImageFollower, _some
from trimaran.zkcompat.mirroring.status import MirrorStatus
from trimaran.zkcompat.mirroring.tenure import Tenure
from trimaran.zkcompat.mirroring.verifier import cpu_seconds
from trimaran.zkcompat.mirroring.writer import TreeDiffersError
from trimaran.zkcompat.quorum_feed.feed import ImageFeed, PendingChanges
from trimaran.zkcompat.sections.registry import sections_of
from trimaran.zkcompat.sections.section import Section
from trimaran.zkcompat.tree.operations import FoundZnode, OperationKind, TreeOperation


class Entities(Section):
    """A section of entities with two root directories and no other znode; a plan writes the name of each entity."""

    label = "Entities"
    directories = ("/a", "/b")

    def names(self, image):
        return []

    touched = differing = names

    def singles(self, name):
        return (f"/single-{name}",)

    def plan(self, name, before, after):
        yield TreeOperation(OperationKind.CREATE, f"/a/{name}", "", "")

    def znodes(self, name, image):
        return ()


class Keeper:
    """Contains no znode, and notes what is read."""

    session_id = 7

    def __init__(self):
        self.read = []

    async def read_tree(self, roots, singles, *, levels_max):
        self.read.append(list(roots))
        await trio.lowlevel.checkpoint()
        return {root: FoundZnode(b"") for root in roots}


class Writer:
    """Notes what is written; `differs` is the number of times."""

    def __init__(self, tenure):
        self.tenure = tenure
        self.written = []
        self.steps = 100
        self.differs = 0
        self.operations = 1

    async def write(self, operations, image=None, *, dirty=False, final=False):
        paths = [operation.path for operation in operations]
        self.written.append((paths, dirty, final))
        self.steps += 50
        await trio.sleep(1)
        if self.differs:
            self.differs -= 1
            raise TreeDiffersError("differs")
        if image is not None:
            self.tenure.published(image)
        return self.operations


def follower_of(*, shown=EMPTY, sections=None, held=()):
    companion = SimpleNamespace(holds=lambda path: path in held, spares=lambda path: False)
    status = MirrorStatus()
    sections = [Entities()] if sections is None else sections
    tenure = Tenure(Keeper(), CLUSTER_ID, sections_of(CLUSTER_ID), status, [companion], shown=shown)
    tenure.sections = sections
    quarantine = Quarantine(trio.current_time)
    return ImageFollower(ImageFeed(image=shown), tenure, Writer(tenure), quarantine, status)


def touching(*names):
    return SimpleNamespace(names=lambda section, before, after: names)


@pytest.mark.parametrize(
    ("held", "shut", "planned"),
    [
        ((), (), ["/a/x", "/a/y"]),
        (("/a/x",), (), ["/a/y"]),
        (("/b/x",), (), ["/a/y"]),
        ((), ("/a/x",), ["/a/y"]),
        ((), ("/b/x",), ["/a/x", "/a/y"]),  # only children of the znode cannot be created
        (("/a/x",), ("/a/y",), []),
    ],
)
async def test_held_or_shut_entities_are_not_planned(held, shut, planned):
    follower = follower_of(held=held)
    for path in shut:
        follower.quarantine.add(path, "create", "NoAuth")
    operations = follower._planned(EMPTY, EMPTY, touching("x", "y"))
    assert [operation.path for operation in operations] == planned


def piece_of(*names):
    return TreePart(Entities(), names, {})


# for entity x: the refused operation, and whether it is settled when the entity was written
SETTLED = [
    ("/a/x", "create", True),
    ("/b/x", "set", True),
    ("/a/x/below/it", "delete", True),
    ("/b/x/below", "read", True),
    ("/single-x", "set", True),
    ("/single-x/below", "set", False),  # the znode belongs to another client
    ("/single-y", "set", False),
    ("/a/xx", "create", False),
    ("/a", "create", False),
    ("/c/x", "create", False),
    ("/a/x", "children", False),
]


@pytest.mark.parametrize(("path", "action", "is_settled"), SETTLED)
async def test_retried_paths_are_settled_with_their_entity(path, action, is_settled):
    follower = follower_of()
    follower.quarantine.add(path, action, "NoAuth").retries = True
    follower._settled(piece_of("w", "x"))
    assert [entry.path for entry in follower.quarantine] == ([] if is_settled else [path])


async def test_paths_without_retry_are_not_settled():
    follower = follower_of()
    follower.quarantine.add("/a/x", "create", "NoAuth")
    follower._settled(piece_of("x"))
    assert len(follower.quarantine) == 1


async def test_comparison_lasts_until_the_last_suspect(autojump_clock):
    """After the last one, a task that waits for the end of all suspects wakes; a suspect that appears meanwhile is left
    for the next comparison.
    """
    follower = follower_of()
    tenure, (section,) = follower.tenure, follower.tenure.sections
    tenure.suspect(section, "x")
    heard = []

    async def listen():
        await tenure.wait_no_suspects()
        heard.append(trio.current_time() - began)

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        nursery.start_soon(follower._compare_suspects)
        await trio.sleep(0.5)
        assert (tenure.suspects, tenure.comparing) == ({}, True)
    assert heard == [1]
    assert tenure.comparing is False
    assert tenure.keeper.read == [["/a/x", "/b/x"]]
    assert follower.writer.written == [(["/b/x", "/a/x"], False, False)]


async def test_nothing_is_compared_without_suspects_or_known_tree(autojump_clock):
    follower = follower_of()
    await follower._compare_suspects()
    follower.tenure.shown = None
    follower.tenure.suspect(follower.tenure.sections[0], "x")
    await follower._compare_suspects()
    assert follower.tenure.keeper.read == []
    assert len(follower.tenure.suspects) == 1


@pytest.mark.parametrize("is_retrying", [False, True])
async def test_only_retries_count_towards_their_cost(autojump_clock, monkeypatch, is_retrying):
    told = []
    monkeypatch.setattr(Quarantine, "tried", lambda _, cost: told.append(cost))
    follower = follower_of()
    (section,) = follower.tenure.sections
    if is_retrying:
        follower.quarantine.add("/nowhere", "create", "NoAuth")
        await trio.sleep(1)
        follower._suspect_due()
    for _ in range(2):
        follower.tenure.suspect(section, "x")
        await follower._compare_suspects()
    assert told == ([cpu_seconds(2, 50)] if is_retrying else [])


async def test_due_refusals_are_compared_with_waiting_paths(autojump_clock):
    follower = follower_of()
    rechecked = []
    follower.tenure = SimpleNamespace(recheck=rechecked.append)
    entry = follower.quarantine.add("/a/x", "children", "NoAuth")
    entry.waiting |= {f"/a/x/{number}" for number in (3, 1, 2)}
    follower._suspect_due()
    assert (rechecked, follower._retrying) == ([], False)
    await trio.sleep(1)
    follower._suspect_due()
    assert rechecked == ["/a/x", "/a/x/1", "/a/x/2", "/a/x/3"]
    assert follower._retrying is True


@pytest.mark.parametrize(
    ("differs", "finals", "repairs"),
    [
        (0, [False], 1),
        (1, [False, False], 1),
        (2, [False, False, True], 1),
        (3, [False, False, True], 0),
    ],
)
async def test_slice_is_read_three_times_at_most(autojump_clock, differs, finals, repairs):
    follower = follower_of()
    follower.writer.differs = differs
    follower.quarantine.add("/a/x", "set", "NoAuth").retries = True
    await follower._settle(piece_of("x"), EMPTY, dirty=False)
    assert [final for _, _, final in follower.writer.written] == finals
    assert follower.tenure.keeper.read == [["/a/x", "/b/x"]] * differs
    assert (follower.status.repairs, len(follower.quarantine)) == (repairs, 1 - repairs)


@pytest.mark.parametrize(
    ("operations", "shown", "dirty", "repairs", "is_told"),
    [
        (1, EMPTY, False, 1, True),
        (1, EMPTY, True, 1, False),
        (0, EMPTY, False, 0, False),
        (1, None, True, 0, False),
        (1, None, False, 0, False),
    ],
)
async def test_repair_is_counted_only_in_known_tree(
    autojump_clock, caplog, operations, shown, dirty, repairs, is_told
):
    follower = follower_of(shown=shown)
    follower.writer.operations = operations
    piece = TreePart(Entities(), ["x"], {"/a/x": FoundZnode(b"")})
    await follower._settle(piece, EMPTY, dirty=dirty)
    assert follower.writer.written == [(["/a/x"], dirty, False)]
    assert follower.status.repairs == repairs
    assert ("/a/x" in caplog.text) is is_told


async def test_image_is_written_once(autojump_clock):
    follower = follower_of(sections=[])
    await follower._catch_up()
    assert follower.writer.written == []
    follower.feed.image = image = build.image_of(build.broker(1))
    assert not follower._is_idle()
    await follower._catch_up()
    await follower._catch_up()
    assert follower.writer.written == [([], False, False)]
    assert follower.tenure.shown is image
    assert follower._is_idle()


async def test_differing_tree_is_compared_at_touched_entities(
    autojump_clock,
):
    follower = follower_of()
    image = build.image_of(build.broker(1))
    follower.feed = SimpleNamespace(image=image, take=lambda: (image, touching("x")))
    follower.writer.differs = 1
    await follower._catch_up()
    assert follower.writer.written == [
        (["/a/x"], False, False),
        (["/b/x", "/a/x"], True, False),
        ([], False, False),
    ]
    assert follower.tenure.shown is image


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (0, ""),
        (1, "/0"),
        (3, "/0, /1, /2"),
        (4, "/0, /1, /2 and 1 more"),
        (9, "/0, /1, /2 and 6 more"),
    ],
)
def test_three_paths_are_named_and_others_counted(count, told):
    assert _some([f"/{number}" for number in range(count)]) == told


def test_unchanged_names_are_not_touched():
    follower = follower_of(sections=sections_of(CLUSTER_ID))
    assert list(follower._touched(EMPTY, EMPTY, PendingChanges())) == []
