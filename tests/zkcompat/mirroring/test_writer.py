"""The transactions into which the writer combines operations, in full, and the znodes that it reads and hides before."""

import pytest
import trio

from tests.zkcompat import build
from trimaran.zkcompat.comparing.quarantine import Quarantine
from trimaran.zkcompat.mirroring.status import MirrorStatus
from trimaran.zkcompat.mirroring.tenure import StepRefusedError
from trimaran.zkcompat.mirroring.writer import TreeDiffersError, TreeWriter
from trimaran.zkcompat.tree.claim import ClaimGuard, TransactionStep
from trimaran.zkcompat.tree.operations import (
    BATCH_BYTES_MAX,
    OPERATION_BYTES,
    FoundZnode,
    OperationKind,
    TreeOperation,
)
from trimaran.zkcompat.znodes.entity_config import EntityConfig
from trimaran.zkcompat.znodes.migration import Migration
from trimaran.zkcompat.zookeeper.errors import PathRefusedError

BEFORE = Migration(controller_id=1, controller_epoch=2, offset=4, epoch=2)
IMAGE = build.image_of(build.broker(1))
OFFSET, EPOCH, _ = IMAGE.provenance


class Keeper:
    """Contains the given znodes; `locked` ones cannot be hidden."""

    def __init__(self, znodes=None, locked=()):
        self.znodes, self.locked = znodes or {}, locked
        self.calls = []

    async def read_many(self, paths):
        await trio.lowlevel.checkpoint()
        self.calls.append(("read", *paths))
        return {path: self.znodes.get(path) for path in paths}

    async def hide(self, path):
        await trio.lowlevel.checkpoint()
        self.calls.append(("hide", path))
        if path in self.locked:
            raise PathRefusedError(path, "NoAuth")


class Tenure:
    """Notes each transaction; those with a path of `refused` are refused for the given reason."""

    def __init__(self, keeper=None, refused=None):
        self.keeper, self.refused = keeper or Keeper(), refused or {}
        self.guard = ClaimGuard(1, 1, BEFORE, 0)
        self.status = MirrorStatus()
        self.transactions = []
        self.shown = None

    async def transact(self, steps, migration, meanwhile=None):
        await trio.lowlevel.checkpoint()
        if meanwhile is not None:
            meanwhile()
        self.transactions.append((steps, migration))
        for index, step in enumerate(steps):
            if step.path in self.refused:
                raise StepRefusedError(index, step, self.refused[step.path])
        self.guard = self.guard.advanced(migration)

    def published(self, image):
        self.shown = image


def writer_of(tenure, batch_operations=2):
    return TreeWriter(tenure, Quarantine(lambda: 0.0), batch_operations)


def created(path, **members):
    return TreeOperation(OperationKind.CREATE, path, "", "", b"x", **members)


def paths_of(tenure):
    return [[step.path for step in steps] for steps, _ in tenure.transactions]


DIRTY = Migration(controller_id=1, controller_epoch=2, offset=4, epoch=2, dirty=True)
AFTER = Migration(controller_id=1, controller_epoch=2, offset=OFFSET, epoch=EPOCH)
# operations, with an image, dirty; the sizes of the transactions and what each leaves in /migration
TRANSACTIONS = [
    (0, False, False, []),
    (0, False, True, [(0, DIRTY)]),
    (0, True, False, [(0, AFTER)]),
    (1, False, False, [(1, BEFORE)]),
    (1, False, True, [(1, DIRTY)]),
    (2, True, False, [(2, AFTER)]),
    (3, False, False, [(2, BEFORE), (1, BEFORE)]),
    (3, True, False, [(2, DIRTY), (1, AFTER)]),
    (3, False, True, [(2, DIRTY), (1, DIRTY)]),
    (4, True, True, [(2, DIRTY), (2, AFTER)]),
    (7, True, False, [(2, DIRTY), (2, DIRTY), (2, DIRTY), (1, AFTER)]),
]


@pytest.mark.parametrize(("count", "has_image", "dirty", "expected"), TRANSACTIONS)
async def test_only_last_transaction_publishes_the_image(count, has_image, dirty, expected):
    tenure = Tenure()
    writer = writer_of(tenure)
    operations = [created(f"/{number}") for number in range(count)]
    image = IMAGE if has_image else None
    assert await writer.write(iter(operations), image, dirty=dirty) == count
    assert [(len(steps), left) for steps, left in tenure.transactions] == expected
    written = [step for steps, _ in tenure.transactions for step in steps]
    assert written == [TransactionStep("create", f"/{number}", b"x") for number in range(count)]
    assert (tenure.shown, tenure.status.writes, writer.steps) == (image, count, count)


async def test_tree_equal_to_image_is_left_alone():
    tenure = Tenure()
    tenure.guard = ClaimGuard(1, 1, AFTER, 0)
    assert await writer_of(tenure).write((), IMAGE) == 0
    assert (tenure.transactions, tenure.shown) == ([], IMAGE)


@pytest.mark.parametrize("reason", ["NoNode", "NodeExists", "NotEmpty", "BadVersion"])
async def test_refusal_by_differing_tree_causes_comparison_first(reason):
    tenure = Tenure(refused={"/1": reason})
    operations = [created("/0"), created("/1"), created("/1/below"), created("/2")]
    writer = writer_of(tenure, 9)
    with pytest.raises(TreeDiffersError, match=f"create /1: {reason}"):
        await writer.write(operations)
    assert (list(writer.quarantine), tenure.status.writes) == ([], 0)
    assert await writer.write(operations, final=True) == 2
    assert paths_of(tenure)[1:] == [["/0", "/1", "/1/below", "/2"], ["/0", "/2"]]
    assert [entry.path for entry in writer.quarantine] == ["/1"]
    assert writer.steps == 4 + 4 + 2


async def test_other_refusals_hold_back_znode_and_dependents(caplog):
    tenure = Tenure(refused={"/b/1": "NoAuth"})
    writer = writer_of(tenure, 9)
    tell = created("/notes/n", sequential=True, about="/b/1")
    kept = created("/notes/m", sequential=True, about="/a/0")
    assert await writer.write([created("/a/0"), created("/b/1"), tell, kept]) == 2
    assert paths_of(tenure)[-1] == ["/a/0", "/notes/m"]
    # Permission to create it is that of its parent, and all creations below the parent need it as well.
    assert [(entry.path, entry.action) for entry in writer.quarantine] == [("/b", "children")]
    assert len(caplog.records) == 1
    caplog.clear()
    assert await writer.write([created("/b/2"), created("/a/3")]) == 1
    assert paths_of(tenure)[-1] == ["/a/3"]
    assert caplog.records == []


@pytest.mark.parametrize("beyond", [-1, 0, 1])
async def test_operation_too_large_for_transaction_is_held_back(beyond):
    tenure = Tenure()
    writer = writer_of(tenure, 9)
    size = BATCH_BYTES_MAX - OPERATION_BYTES - len("/large") + beyond
    large = TreeOperation(OperationKind.CREATE, "/large", "", "", bytes(size))
    assert large.size_bytes == BATCH_BYTES_MAX + beyond
    await writer.write([large, created("/large/below"), created("/small")])
    made = [path for paths in paths_of(tenure) for path in paths]
    if beyond > 0:
        assert made == ["/small"]
        (entry,) = writer.quarantine
        told = f"{BATCH_BYTES_MAX + 1} bytes, more than the {BATCH_BYTES_MAX} of a transaction"
        assert (entry.path, entry.reason) == ("/large", told)
    else:
        assert made == ["/large", "/large/below", "/small"]
        assert list(writer.quarantine) == []


def is_foreign(key):
    return key.startswith("other")


CONFIG = EntityConfig({"a": "1", "other": "2"}).encode()
MERGED = EntityConfig({"a": "3", "other": "2"}).encode()
OWN = EntityConfig({"a": "3"}).encode()
LOCKED = FoundZnode(None, refusal="NoAuth")
# kept foreign keys, secret, existing znode; requests to the keeper, written operations
RESOLVED = [
    (False, False, None, [], ("create", OWN, -1)),
    (False, True, None, [], ("create", OWN, -1)),
    (True, False, None, ["read"], ("create", OWN, -1)),
    (True, True, None, ["read"], ("create", OWN, -1)),
    (True, False, FoundZnode(CONFIG, version=5), ["read"], ("set", MERGED, 5)),
    (True, True, FoundZnode(CONFIG, version=5), ["read", "hide"], ("set", MERGED, 5)),
    (True, False, LOCKED, ["read"], ("create", OWN, -1)),
    (True, True, LOCKED, ["read"], ("create", OWN, -1)),
]


@pytest.mark.parametrize(("keeps", "secret", "there", "asked", "written"), RESOLVED)
async def test_foreign_keys_stay_and_secrets_are_hidden_first(keeps, secret, there, asked, written):
    keeper = Keeper({"/config": there})
    tenure = Tenure(keeper)
    operation = TreeOperation(
        OperationKind.CREATE,
        "/config",
        "",
        "",
        OWN,
        secret=secret,
        keeps=is_foreign if keeps else None,
    )
    await writer_of(tenure).write([operation])
    assert keeper.calls == [(call, "/config") for call in asked]
    kind, data, version = written
    assert tenure.transactions == [
        ([TransactionStep(kind, "/config", data, version, secret=secret)], BEFORE)
    ]


async def test_only_shared_znodes_are_read_before_writing():
    keeper = Keeper()
    tenure = Tenure(keeper)
    operations = [
        created("/0", keeps=is_foreign),
        created("/1", secret=True),
        created("/2", keeps=is_foreign),
    ]
    await writer_of(tenure, 9).write(operations)
    assert keeper.calls == [("read", "/0", "/2")]


async def test_unhideable_znode_is_neither_written_nor_noted():
    keeper = Keeper({"/config": FoundZnode(CONFIG, version=5)}, locked=["/config"])
    tenure = Tenure(keeper)
    writer = writer_of(tenure, 9)
    secret = TreeOperation(OperationKind.SET, "/config", "", "", OWN, secret=True, keeps=is_foreign)
    note = created("/changes/c", sequential=True, about="/config")
    assert await writer.write([secret, note, created("/0")]) == 1
    assert paths_of(tenure) == [["/0"]]
    assert [(entry.path, entry.action, entry.reason) for entry in writer.quarantine] == [
        ("/config", "set", "NoAuth")
    ]


async def test_batch_is_prepared_during_previous_write():
    """No more than one batch is prepared, because operations are generated on demand."""
    made = []
    tenure = Tenure()

    def operations():
        for number in range(8):
            made.append(number)
            yield created(f"/{number}")

    seen = []
    transact = tenure.transact

    async def noting(steps, migration, meanwhile=None):
        await transact(steps, migration, meanwhile)
        seen.append(len(made))

    tenure.transact = noting
    await writer_of(tenure).write(operations())
    assert seen == [7, 8, 8, 8]
