"""Tables for people: what members and topics are called is text of others."""

from __future__ import annotations

import json

from trimaran.cli.output import show_fields, show_rows

HOSTILE = "c\n\x1b[2Kadmin  Stable\u2028x"


def test_a_cell_forges_no_row(capsys):
    show_rows([{"client_id": HOSTILE, "state": "Empty"}], "table")
    assert len(capsys.readouterr().out.splitlines()) == 2
    show_fields({"client_id": HOSTILE}, "table")
    out = capsys.readouterr().out
    assert len(out.splitlines()) == 1
    assert "\x1b" not in out


def test_json_has_it_as_it_is(capsys):
    show_rows([{"client_id": HOSTILE}], "json")
    assert json.loads(capsys.readouterr().out) == [{"client_id": HOSTILE}]
