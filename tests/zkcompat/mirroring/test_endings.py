"""The exceptions that end a mirror's nursery, and its log lines about the quorum and unknown records."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import trio

from tests.cluster.nodes import CLUSTER_ID
from trimaran.quorum.metadata.image import EMPTY, UnknownRecord, UnknownRecords
from trimaran.zkcompat.comparing.quarantine import Quarantine
from trimaran.zkcompat.mirroring.mirror import only
from trimaran.zkcompat.mirroring.status import MirrorStatus, Reporting
from trimaran.zkcompat.quorum_feed import observer
from trimaran.zkcompat.quorum_feed.feed import ImageFeed
from trimaran.zkcompat.quorum_feed.observer import open_observer

WANTED, OTHER = KeyError("wanted"), ValueError("other")


@pytest.mark.parametrize(
    ("errors", "is_one"),
    [
        ([WANTED], True),
        ([WANTED, KeyError("second")], True),
        ([ExceptionGroup("", [WANTED])], True),
        ([WANTED, OTHER], False),
        ([OTHER], False),
        ([ExceptionGroup("", [WANTED, OTHER])], False),
    ],
)
def test_group_of_expected_errors_yields_its_first(errors, is_one):
    group = ExceptionGroup("", errors)
    assert only(group, KeyError, IndexError) is (WANTED if is_one else group)


async def test_observer_has_no_id_and_names_cluster(monkeypatch):
    made = []

    class Node:
        leader_address = None

        def __init__(self, settings, log, loader):
            made.append(settings)
            self.leader = SimpleNamespace(
                value=SimpleNamespace(leader_id=None, epoch=0), wait_not=self.never
            )

        async def never(self, *_):
            await trio.sleep_forever()

        wait_caught_up = never

        async def run(self, *, task_status):
            task_status.started()

    monkeypatch.setattr(observer, "QuorumNode", Node)
    async with open_observer(CLUSTER_ID, [("a", 1), ("b", 2)]) as feed:
        assert feed.leader_address() is None
        assert (feed.leader, feed.ready, feed.kept_until) == (None, False, -1)
    (settings,) = made
    assert (settings.identity.node_id, settings.identity.cluster_id) == (-1, CLUSTER_ID)
    assert [
        (endpoint.id, endpoint.host, endpoint.port) for endpoint in settings.identity.bootstrap
    ] == [*((-2, "a", 1), (-3, "b", 2))]
    assert settings.client_id == "zk-mirror"


async def test_unknown_records_are_logged_once_per_change(autojump_clock, caplog):
    feed = ImageFeed()
    reporting = Reporting(feed, None, MirrorStatus(), Quarantine(lambda: 0.0))

    async def seen(*kinds):
        caplog.clear()
        feed.image = replace(EMPTY, unknown=UnknownRecords(len(kinds), kinds))
        await trio.sleep(3)
        return len(caplog.records)

    one, other = (UnknownRecord(number, 0, 5) for number in (98, 99))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reporting.watch_quorum)
        found = [await seen(*kinds) for kinds in ((), (one,), (one,), (one, other), (), (one,))]
        nursery.cancel_scope.cancel()
    assert found == [0, 1, 0, 1, 0, 1]
