"""The offset at which a share group begins without a position."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.broker.batches import append
from tests.broker.sharing.rig import SharingRig
from trimaran.broker.sharing.starting import carried_out, offset_to_begin
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.transport.scheduling.effects import INLINE_COST_MAX, Compute

NOW_MS = 1_000_000


@pytest.fixture
def leader(tmp_path):
    """Records without a time at 0-1, of 900 s at 2-3, of 990 s at 4-5; of 995 s and 999 s, not committed."""
    rig = SharingRig(tmp_path)
    for time_ms in (-1, 900_000, 990_000):
        append(rig.harness, b"x", b"x", timestamp_ms=time_ms)
    rig.harness.flush()
    for time_ms in (995_000, 999_000):
        append(rig.harness, b"x", b"x", timestamp_ms=time_ms)
    return rig.harness.leader()


@pytest.mark.parametrize(
    ("reset", "start"),
    [
        ("earliest", 0),
        ("latest", 6),
        ("by_duration:P9D", 2),
        ("by_duration:PT100S", 2),
        ("by_duration:PT99.999S", 4),
        ("by_duration:PT10S", 4),
        ("by_duration:PT9S", 6),
        ("by_duration:PT3S", 6),
        ("by_duration:PT0S", 6),
    ],
)
async def test_group_begins_at_committed_records(leader, reset, start):
    assert await offset_to_begin(leader, reset, NOW_MS) == start


async def test_log_start_is_the_earliest_offset(leader):
    leader.log.delete_records_before(3)
    assert await offset_to_begin(leader, "earliest", NOW_MS) == 3


@pytest.mark.parametrize("reset", ["latest", "by_duration:P9D"])
async def test_unknown_end_is_not_available(reset):
    log = SimpleNamespace(log_start_offset=5)
    unknown = SimpleNamespace(log=log, knows_committed=False)
    with pytest.raises(KafkaError) as refused:
        await offset_to_begin(unknown, reset, NOW_MS)
    assert refused.value.code is ErrorCode.OFFSET_NOT_AVAILABLE
    assert await offset_to_begin(unknown, "earliest", NOW_MS) == 5


@pytest.mark.parametrize("cost", [0, INLINE_COST_MAX, INLINE_COST_MAX + 1])
async def test_computed_results_and_errors_are_given_back(cost):
    def failing():
        raise ValueError("no")

    def steps():
        yield None
        first = yield Compute(cost, lambda: 7)
        try:
            yield Compute(cost, failing)
        except ValueError as error:
            return first, str(error), (yield None)

    assert await carried_out(steps()) == (7, "no", None)
