"""Log lines that peers can cause: a few of each kind per interval, and the count of omitted ones."""

import logging

import pytest
import trio

from trimaran.wire.text.events import Event
from trimaran.wire.transport.metrics.limited_log import LimitedLog

FAILED = Event("test.failed", logging.WARNING, "Failed: %(reason)s", "")
OTHER = Event("test.other", logging.WARNING, "Other: %(reason)s", "")


@pytest.fixture
def lines(caplog):
    def written():
        found = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return found

    return written


async def test_one_line_per_kind_is_written_others_counted(autojump_clock, lines):
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


async def test_line_is_suppressed_for_ten_seconds_by_default(autojump_clock, lines):
    limited = LimitedLog(logging.getLogger("test"))
    limited.log(FAILED, reason=0)
    await trio.sleep(9.75)
    limited.log(FAILED, reason=1)
    assert lines() == ["Failed: 0"]
    await trio.sleep(0.25)
    limited.log(FAILED, reason=2)
    assert lines() == ["Failed: 2 (and 1 more such since the last line)"]
    limited.log(FAILED, reason=3)
    await trio.sleep(10.0)
    limited.log(FAILED, reason=4)
    assert lines() == ["Failed: 4 (and 1 more such since the last line)"]


async def test_no_suppression_is_reported_for_few_lines(autojump_clock, lines):
    limited = LimitedLog(logging.getLogger("test"), 10.0, lines_max=3)
    for count in (1, 2, 3, 4, 1):
        for number in range(count):
            limited.log(FAILED, reason=number)
        await trio.sleep(10.0)
    assert lines() == [
        *["Failed: 0"],
        *["Failed: 0", "Failed: 1"],
        *["Failed: 0", "Failed: 1", "Failed: 2"],
        *["Failed: 0", "Failed: 1", "Failed: 2"],
        "Failed: 0 (and 1 more such since the last line)",
    ]


async def test_error_is_logged_with_line_and_fields(autojump_clock, caplog):
    error = ValueError("no sense")
    LimitedLog(logging.getLogger("test")).log(FAILED, exc_info=error, reason="r")
    (record,) = caplog.records
    assert (record.exc_info[1], record.levelno) == (error, logging.WARNING)
