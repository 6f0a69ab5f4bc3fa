"""Progress bars of slow commands: only on a terminal and on stderr, and removed at the end."""

import io
import os
import re
import select
import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import pytest

from trimaran.cli import output
from trimaran.cli import progress as module
from trimaran.cli.progress import progress

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(module, "SHOWN_AFTER_SECONDS", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")


@contextmanager
def terminal():
    """Makes stderr a terminal; returns a function that reads from it."""
    master, slave = os.openpty()
    with os.fdopen(slave, "w") as stderr, redirect_stderr(stderr):
        yield master
    os.close(master)


def read_until(master, text):
    shown = ""
    while text not in shown:
        assert select.select([master], [], [], 30)[0], shown
        shown = ESCAPES.sub("", shown + os.read(master, 4096).decode())
    return shown


def test_progress_shows_percentage_and_label(capsys):
    with terminal() as screen, progress("comparing", 200) as bar:
        bar.at(50, "orders-3")
        shown = read_until(screen, "25%")
        bar.at(150)
        read_until(screen, "75%")
    assert "comparing" in shown
    assert "orders-3" in shown
    assert capsys.readouterr().out == ""


def test_units_are_counted_and_no_end_is_needed():
    with terminal() as screen, progress("consuming", unit="record") as bar:
        bar.at(1200)
        assert "%" not in read_until(screen, "1,200 records")


def test_messages_appear_above_progress_bar():
    with terminal() as screen:
        with progress("comparing"):
            read_until(screen, "comparing")
            output.say("offset 7 is inside a batch")
            assert "comparing" in read_until(screen, "inside a batch\r\ncomparing")


def test_nested_operation_shows_no_second_bar():
    """A nested request shows none; after its end another one may."""
    with terminal() as screen:
        with progress("outer"), module.waiting("FetchRequest"):
            assert "Fetch" not in read_until(screen, "outer")
        with module.waiting("FetchRequest"):
            assert "outer" in read_until(screen, "waiting for the answer to Fetch")


@pytest.mark.parametrize("why", ["a pipe", "-q", "rows on the same terminal"])
def test_bar_is_hidden_off_terminals(why, monkeypatch):
    monkeypatch.setattr(output, "_is_quiet", why == "-q")
    monkeypatch.setattr(module, "_shown_later", pytest.fail)
    rows = why == "rows on the same terminal"
    with terminal(), redirect_stdout(sys.stderr):
        with redirect_stderr(io.StringIO() if why == "a pipe" else sys.stderr):
            with progress("consuming", 3, prints=rows) as bar:
                bar.at(3)
    assert bar.done == 3


def test_quick_work_loads_no_progress_library(monkeypatch):
    monkeypatch.setattr(module, "SHOWN_AFTER_SECONDS", 60.0)
    monkeypatch.setattr(module, "_drawn", pytest.fail)
    with terminal(), progress("asking", 3) as bar:
        bar.at(3)
    assert bar.done == 3
