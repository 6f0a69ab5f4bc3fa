"""The bound of runs in flight on a broker: at the limit, only free records are delivered."""

from __future__ import annotations

import pytest

from tests.broker.handlers.test_share_fetch import first_fetch
from tests.broker.sharing.rig import sharing_rig, shown
from trimaran.broker.sharing import share_partitions
from trimaran.wire.errors import ErrorCode, KafkaError

ACCEPT, RELEASE = 1, 2


@pytest.mark.parametrize(("runs", "full"), [(999_999, False), (1_000_000, True)])
async def test_broker_is_full_at_a_million_runs(tmp_path, monkeypatch, runs, full):
    monkeypatch.undo()
    async with sharing_rig(tmp_path) as rig:
        rig.sharing.count_runs(runs - 1)
        assert not rig.sharing.is_full
        rig.sharing.count_runs(1)
        assert rig.sharing.is_full is full


@pytest.fixture(autouse=True)
def _one_run(monkeypatch):
    monkeypatch.setattr(share_partitions, "RUNS_IN_FLIGHT_MAX", 1)


async def test_full_broker_delivers_only_free_records(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(2)
        assert shown(await first_fetch(rig)) == {0: (0, [(0, 1, 1)], 0)}
        rig.produce(2)
        assert shown(await rig.fetched(2)) == {}
        await rig.acknowledged(3, {0: [(0, 1, [RELEASE])]})
        assert shown(await rig.fetched(4)) == {0: (0, [(0, 1, 2)], 0)}
        await rig.acknowledged(5, {0: [(0, 1, [ACCEPT])]})
        assert shown(await rig.fetched(6)) == {0: (0, [(2, 3, 1)], 0)}


async def test_ended_share_partition_leaves_no_runs(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        rig.produce(2)
        await first_fetch(rig)
        assert rig.sharing.is_full
        share = rig.share()
        for _ in range(2):
            share.end(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            assert not rig.sharing.is_full
        rig.produce(2)
        assert shown(await first_fetch(rig)) == {0: (0, [(0, 3, 1)], 0)}
