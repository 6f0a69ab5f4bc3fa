"""Tables for users: names of members and topics are untrusted text."""

from __future__ import annotations

import json

import pytest
import yaml

from trimaran.cli.output import (
    be_quiet,
    complain,
    put,
    say,
    show_data,
    show_fields,
    show_item,
    show_rows,
)
from trimaran.errors.user_error import UserError

HOSTILE = "c\n\x1b[2Kadmin  Stable\u2028x"


def test_cell_cannot_forge_a_row(capsys):
    show_rows([{"client_id": HOSTILE, "state": "Empty"}], "table")
    assert len(capsys.readouterr().out.splitlines()) == 2
    show_fields({"client_id": HOSTILE}, "table")
    out = capsys.readouterr().out
    assert len(out.splitlines()) == 1
    assert "\x1b" not in out


@pytest.mark.parametrize("show", [say, complain, put])
def test_messages_escape_control_characters_but_keep_lines(capsys, show):
    show("first\n\tsecond \x1b[2Jgroup \x9b31m \u202e")
    shown = capsys.readouterr()
    assert shown.out + shown.err == "first\n\tsecond \\x1b[2Jgroup \\x9b31m \\u202e\n"


def test_error_escapes_text_chosen_by_clients():
    assert str(UserError("group \x1b[2J", "why\n \x07", "fix")) == (
        "error: group \\x1b[2J\n  why: why \\x07\n  fix: fix"
    )


def test_json_has_text_unchanged(capsys):
    show_rows([{"client_id": HOSTILE}], "json")
    assert json.loads(capsys.readouterr().out) == [{"client_id": HOSTILE}]


ROWS = [{"name": "a", "ids": [1, 2], "more": None}, {"name": "b", "ids": [], "more": True}]


def test_every_format_has_the_same_rows(capsys):
    shown = {}
    for output in ("table", "wide", "json", "jsonl", "yaml"):
        show_rows(ROWS, output, columns=["name", "ids"])
        shown[output] = capsys.readouterr().out
    assert shown["table"] == "NAME  IDS\na     1,2\nb     -\n"
    assert shown["wide"] == "NAME  IDS  MORE\na     1,2  -\nb     -    yes\n"
    assert json.loads(shown["json"]) == ROWS
    assert [json.loads(line) for line in shown["jsonl"].splitlines()] == ROWS
    assert yaml.safe_load(shown["yaml"]) == ROWS


def test_stream_of_objects_is_lines_or_documents(capsys):
    for row in ROWS:
        show_item(row, "json")
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == ROWS
    for row in ROWS:
        show_item(row, "yaml")
    assert list(yaml.safe_load_all(capsys.readouterr().out)) == ROWS


def test_row_count_is_printed_unless_quiet(capsys):
    many = [{"topic": str(number)} for number in range(60)]
    show_rows(many, "table", noun="topic")
    shown = capsys.readouterr()
    assert (len(shown.out.splitlines()), shown.err) == (61, "60 topics\n")
    be_quiet(True)
    try:
        show_rows(many, "table", noun="topic")
    finally:
        be_quiet(False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("output", ["json", "jsonl", "yaml"])
def test_bidirectional_marks_are_escaped_in_data(capsys, output):
    show_data({"group": "a\u202eb"}, output)
    out = capsys.readouterr().out
    assert "\u202e" not in out
    assert yaml.safe_load(out) == {"group": "a\u202eb"}


def test_letters_of_other_languages_are_readable_in_yaml(capsys):
    show_data({"group": "größe"}, "yaml")
    assert capsys.readouterr().out == "group: größe\n"
