"""Lines that peers can cause: a few of a kind in an interval, and a count of those left out."""

import logging

import pytest
import trio

from wire.events import Event
from wire.transport.limited_log import LimitedLog

FAILED = Event("test.failed", logging.WARNING, "Failed: %(reason)s", "")
OTHER = Event("test.other", logging.WARNING, "Other: %(reason)s", "")


@pytest.fixture
def lines(caplog):
    def written():
        found = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return found

    return written


async def test_one_line_of_a_kind_is_written_and_the_rest_counted(autojump_clock, lines):
    limited = LimitedLog(logging.getLogger("test"), 10.0)
    for number in range(4):
        limited.log(FAILED, reason=number)
    limited.log(OTHER, reason="a")
    limited.log(FAILED, of="listener", reason="b")
    assert lines() == ["Failed: 0", "Other: a", "Failed: b"]
    await trio.sleep(10.0)
    limited.log(FAILED, reason=5)
    assert lines() == ["Failed: 5 (and 3 more such since the last line)"]
    await trio.sleep(10.0)
    limited.log(FAILED, reason=6)
    assert lines() == ["Failed: 6"]


async def test_several_lines_of_an_interval_may_be_written(autojump_clock, lines):
    limited = LimitedLog(logging.getLogger("test"), 10.0, lines_max=2)
    for number in range(2):
        limited.log(FAILED, reason=number)
        await trio.sleep(4.0)
    for _ in range(3):
        limited.log(FAILED, reason="left out")
    assert lines() == ["Failed: 0", "Failed: 1"]
    await trio.sleep(2.0)
    for number in range(3):
        limited.log(FAILED, reason=number)
    assert lines() == ["Failed: 0 (and 3 more such since the last line)", "Failed: 1"]
