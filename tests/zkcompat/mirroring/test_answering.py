"""How the mirror answers requests to compare everything, and what it reports, step by step on a virtual clock."""

import os
import socket
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
import trio

from trimaran.quorum.metadata.image import EMPTY, Provenance, UnknownRecord, UnknownRecords
from trimaran.zkcompat.comparing.quarantine import Quarantine
from trimaran.zkcompat.mirroring import status as module
from trimaran.zkcompat.mirroring.resync import PATH, ResyncRequests
from trimaran.zkcompat.mirroring.status import MirrorStatus, Reporting
from trimaran.zkcompat.mirroring.tenure import StepRefusedError
from trimaran.zkcompat.quorum_feed import feed as feeding
from trimaran.zkcompat.quorum_feed.feed import ImageFeed
from trimaran.zkcompat.tree.claim import TransactionStep
from trimaran.zkcompat.tree.operations import FoundZnode
from trimaran.zkcompat.znodes.mirror_report import REFUSALS_SHOWN, REPORT_PARENTS, MirrorReport
from trimaran.zkcompat.zookeeper.errors import PathRefusedError, UncertainOutcomeError


class Requests:
    """A tenure and a verifier that note their calls with the times. `asked` has the request's zxid by second, 0 for
    none.
    """

    def __init__(self, asked, *, stays=False, unreadable=()):
        self.asked, self.stays, self.unreadable = asked, stays, unreadable
        self.taken = set()
        self.told = []
        self.began = trio.current_time()
        self.keeper = self

    @property
    def now(self):
        return round(trio.current_time() - self.began, 3)

    def _there(self, now):
        there = 0
        for at, zxid in self.asked:
            if at <= now:
                there = zxid
        return 0 if there in self.taken else there

    async def read(self, path, changed):
        await trio.lowlevel.checkpoint()
        assert path == PATH
        self.told.append((self.now, "read"))
        if self.now in self.unreadable:
            raise PathRefusedError(path, "NoAuth")
        there = self._there(self.now)
        for at, _ in self.asked:
            if at > self.now:
                trio.lowlevel.spawn_system_task(self.fire, changed, at - self.now)
        return FoundZnode(b"", created_zxid=there) if there else None

    @staticmethod
    async def fire(changed, seconds):
        await trio.sleep(seconds)
        changed()

    async def verify(self):
        self.told.append((self.now, "verify"))
        await trio.sleep(0.25)

    async def wait_no_suspects(self):
        self.told.append((self.now, "wait"))
        await trio.sleep(0.25)

    async def transact(self, steps):
        await trio.lowlevel.checkpoint()
        assert steps == [TransactionStep("delete", PATH)]
        self.told.append((self.now, "delete"))
        if self.stays:
            raise StepRefusedError(0, steps[0], "NoAuth")
        self.taken.add(self._there(self.now))

    async def until(self, seconds):
        with trio.move_on_after(seconds):
            await ResyncRequests(self, self).run()
        return self.told


async def test_request_is_deleted_after_full_comparison(autojump_clock):
    """The next request is looked up a second later at the earliest."""
    told = await Requests([(2, 5), (2.6, 6)]).until(9)
    assert told == [
        (0, "read"),
        (2, "read"),
        (2, "verify"),
        (2.25, "wait"),
        (2.5, "delete"),
        (3.5, "read"),
        (3.5, "verify"),
        (3.75, "wait"),
        (4, "delete"),
        (5, "read"),
    ]


async def test_remaining_request_is_answered_once(autojump_clock, caplog):
    told = await Requests([(0, 5)], stays=True).until(11)
    assert told == [
        (0, "read"),
        (0, "verify"),
        (0.25, "wait"),
        (0.5, "delete"),
        (5.5, "read"),
        (5.5, "delete"),
        (10.5, "read"),
        (10.5, "delete"),
    ]
    assert len(caplog.records) == 1


async def test_unreadable_request_is_read_again(autojump_clock, caplog):
    told = await Requests([(0, 5)], unreadable=(0, 5)).until(10.1)
    assert told == [(0, "read"), (5, "read"), (10, "read"), (10, "verify")]
    assert len(caplog.records) == 1


class Keeper:
    """Notes the written reports and the times; refuses reports in the seconds of `refuses`."""

    session_id = 7
    is_connected = True

    def __init__(self, **refuses):
        self.refuses = refuses
        self.ensured, self.told = [], []
        self.began = trio.current_time()

    async def ensure(self, path, data):
        await trio.lowlevel.checkpoint()
        self.ensured.append((path, data))

    async def put_own(self, path, data):
        await trio.lowlevel.checkpoint()
        now = round(trio.current_time() - self.began, 3)
        self.told.append((now, MirrorReport.decode(data).state))
        assert path == MirrorReport.path(7)
        for reason, until in self.refuses.items():
            if now < until:
                raise UncertainOutcomeError if reason == "Lost" else PathRefusedError(path, reason)


def reporting_of(keeper):
    return Reporting(ImageFeed(), keeper, MirrorStatus(), Quarantine(trio.current_time))


async def reported(keeper, *changes, until=12):
    """Returns (second, change) of each report."""
    reporting = reporting_of(keeper)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reporting.run)
        await trio.sleep(1)
        assert keeper.told == []
        reporting.admitted.set()
        for at, change in changes:
            await trio.sleep_until(keeper.began + at)
            change(reporting)
        await trio.sleep_until(keeper.began + until)
        nursery.cancel_scope.cancel()
    return keeper.told


async def test_report_is_written_at_once_after_state_change(
    autojump_clock,
):
    told = await reported(
        keeper := Keeper(),
        (3, lambda reporting: reporting.status.tell("in step")),
        (3.05, lambda reporting: reporting.status.tell("waiting")),
        (5.05, lambda reporting: reporting.quarantine.add("/a", "set", "NoAuth")),
        until=7,
    )
    assert told == [
        (1, "starting"),
        (3, "in step"),
        (3.1, "waiting"),
        (5.3, "waiting"),
    ]
    assert keeper.ensured == [(parent, None) for parent in REPORT_PARENTS] * 4


async def test_unchanged_report_is_written_every_five_seconds(autojump_clock):
    told = await reported(Keeper(), until=14)
    assert [state for _, state in told] == ["starting"] * 3
    ages = [later - earlier for (earlier, _), (later, _) in pairwise(told)]
    assert [round(age, 3) for age in ages] == [5.5, 5.5]


@pytest.mark.parametrize(("reason", "lines"), [("NoAuth", 1), ("Lost", 0)])
async def test_refused_report_is_logged_once_and_written_later(
    autojump_clock, caplog, reason, lines
):
    told = await reported(Keeper(**{reason: 4}), until=5.5)
    assert [at for at, _ in told] == [1, 2.1, 3.2, 4.3]
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == lines


async def test_nothing_is_reported_without_connection(autojump_clock):
    keeper = Keeper()
    keeper.is_connected = False
    assert await reported(keeper, until=9) == []


async def test_report_contains_all_state_of_mirror(monkeypatch, autojump_clock):
    monkeypatch.setattr(module, "now_ms", lambda: 9000)
    monkeypatch.setattr(feeding, "now_ms", lambda: 9000)
    reporting = reporting_of(SimpleNamespace())
    kinds = (UnknownRecord(98, 0, 5),)
    unknown = UnknownRecords(1, kinds)
    image = replace(EMPTY, provenance=Provenance(12, 3, 8000), unknown=unknown)
    reporting.feed.image = image
    reporting.feed.history.append(image)
    reporting.feed.heard_ms = 8500
    status = reporting.status
    status.state, status.published_offset, status.last_problem = "waiting", 11, "it is lost"
    status.claims, status.repairs = 4, 5
    entries = [
        reporting.quarantine.add(f"/{n}", "set", "NoAuth") for n in range(REFUSALS_SHOWN + 1)
    ]
    assert reporting._report() == MirrorReport(
        host=socket.gethostname(),
        pid=os.getpid(),
        state="waiting",
        told_ms=9000,
        published_offset=11,
        quorum_offset=12,
        lag_ms=1000,
        quorum_heard_ms=8500,
        claims=4,
        repairs=5,
        quarantined=REFUSALS_SHOWN + 1,
        refusals=[entry.sentence() for entry in entries[:-1]],
        last_problem="it is lost",
        unknown=unknown.text,
    )


async def test_quorum_counts_as_silent_after_three_seconds(monkeypatch, autojump_clock, caplog):
    began = trio.current_time()
    monkeypatch.setattr(feeding, "now_ms", lambda: round(1000 * (trio.current_time() - began)))
    reporting = reporting_of(SimpleNamespace())
    lines = {}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reporting.watch_quorum)
        for second in range(12):
            await trio.testing.wait_all_tasks_blocked()
            lines[second] = len(caplog.records)
            caplog.clear()
            if second == 1:
                reporting.feed.heard_ms = 2000
            if second == 8:
                reporting.feed.heard_ms = 8500
            await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert {second: count for second, count in lines.items() if count} == {5: 1, 9: 1}
