"""Options that may be placed anywhere, and commands that are repeated."""

import itertools

import pytest

from trimaran.cli import global_options, output
from trimaran.cli.global_options import take, watched
from trimaran.cli.output import say
from trimaran.errors.user_error import Exit, UserError


@pytest.mark.parametrize(
    ("line", "rest", "watch"),
    [
        ("topics list", "topics list", None),
        ("topics list --watch", "topics list", 2.0),
        ("topics list --watch 5 --internal", "topics list --internal", 5.0),
        ("topics list --watch=0.5", "topics list", 0.5),
        ("topics list --watch 0", "topics list", 0.1),
        ("topics describe --watch orders", "topics describe orders", 2.0),
        # The command has its own interval, or the parser refuses the option.
        ("metrics --watch", "metrics --watch=2", None),
        ("topics delete t --watch 3", "topics delete t --watch=3", None),
        ("topics list -- --watch", "topics list -- --watch", None),
    ],
)
def test_watch_option_is_accepted_anywhere(line, rest, watch):
    found = take(line.split())
    assert (found.rest, found.watch) == (rest.split(), watch)


def test_quiet_and_verbose_stand_anywhere():
    found = take(["-q", "topics", "list", "--verbose", "--", "-v"])
    assert (found.quiet, found.verbose, found.rest) == (True, True, ["topics", "list", "--", "-v"])


def test_wrong_interval_is_named():
    with pytest.raises(UserError, match="--watch=often"):
        take(["topics", "list", "--watch=often"])


def test_watch_continues_after_a_failure(capsys, monkeypatch):
    """The cluster is unavailable once: the failure is shown, and the command is repeated; Ctrl-C ends it with
    success.
    """
    turns = itertools.count()

    def run():
        turn = next(turns)
        if turn == 1:
            raise UserError("nobody listens", "refused", "start it")
        print(f"turn {turn}")

    def sleep(_seconds):
        if next(turns) > 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(global_options.time, "sleep", sleep)
    turns = itertools.chain([0, 0, 1, 0, 3, 5])
    assert watched(run, 1.0) == Exit.OK
    shown = capsys.readouterr()
    assert shown.out == "turn 0\n\n\nturn 3\n"
    assert "nobody listens" in shown.err


@pytest.mark.parametrize(
    ("is_terminal", "shown"), [(False, "ab--c-a"), (True, "ab-ab-cb-ab")], ids=["file", "terminal"]
)
def test_watch_repeats_no_message_still_shown(capsys, monkeypatch, is_terminal, shown):
    """The terminal is cleared for each output, which removes what was said about the last one."""
    said, runs = [], iter(["ab", "ab", "cb", "ab"])

    def run():
        for message in next(runs):
            say(message)

    def complain(text):
        said.append(text)

    def sleep(_seconds):
        said.append("-")
        if len(said) >= len(shown):
            raise KeyboardInterrupt

    monkeypatch.setattr(global_options.time, "sleep", sleep)
    monkeypatch.setattr(output, "complain", complain)
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    watched(run, 1.0)
    assert "".join(said) == f"{shown}-"


def test_message_of_first_failure_is_shown(capsys):
    def run():
        say("this key has no effect")
        raise UserError("nobody listens", "refused", "start it")

    with pytest.raises(UserError):
        watched(run, 1.0)
    say("and this")
    assert capsys.readouterr().err == "this key has no effect\nand this\n"


def test_immediate_failure_of_watch_is_an_error():
    def run():
        raise UserError("nobody listens", "refused", "start it")

    with pytest.raises(UserError):
        watched(run, 1.0)


def test_watch_ends_with_first_success(capsys, monkeypatch):
    codes = iter([Exit.NO, Exit.OK])
    monkeypatch.setattr(global_options.time, "sleep", lambda _: None)
    watched(lambda: next(codes), 1.0, until_ok=True)
    assert next(codes, None) is None
    assert capsys.readouterr().out == "\n"
