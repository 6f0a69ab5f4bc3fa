"""Tables that are wider than a terminal are folded: exact text, one column of text below and above the bound."""

import json

import pytest

from trimaran.cli.folding import COLUMNS_MAX, show_folded


def partitions(width):
    """Returns rows of two topics; their table has `width` columns of text."""
    name = "t" * (width - len("  PARTITION  CLIENT"))
    return [
        {"topic": topic, "partition": partition, "client": "c"}
        for topic, partition in [(name, 0), (name, 1), ("b", 0)]
    ]


def shown(capsys, rows, columns=("topic", "partition", "client"), output="table"):
    show_folded(rows, output, columns=columns, noun="partition")
    return capsys.readouterr().out


@pytest.mark.parametrize("width", [COLUMNS_MAX - 1, COLUMNS_MAX])
def test_fitting_table_has_a_line_for_each_row(capsys, width):
    text = shown(capsys, partitions(width))
    titles, *lines = text.splitlines()
    assert (titles[:6], len(titles), len(lines)) == ("TOPIC ", width, 3)


def test_wider_table_names_each_topic_once(capsys):
    rows = partitions(COLUMNS_MAX + 1)
    assert shown(capsys, rows) == (
        f"TOPIC {rows[0]['topic']}\n"
        "  PARTITION  CLIENT\n"
        "  0          c\n"
        "  1          c\n"
        "TOPIC b\n"
        "  PARTITION  CLIENT\n"
        "  0          c\n"
    )


MEMBER = {"member": "m", "client": "c" * 60, "process": "p" * 60, "assignment": ["0(1)", "1(0)"]}


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        ({}, ["ASSIGNMENT  0(1)", "            1(0)", "STANDBY     -"]),
        ({"assignment": []}, ["ASSIGNMENT  -", "STANDBY     -"]),
        ({"standby": ["0(0)"]}, ["ASSIGNMENT  0(1)", "            1(0)", "STANDBY     0(0)"]),
    ],
)
def test_widest_rows_have_a_line_for_each_value(capsys, change, lines):
    row = {**MEMBER, "standby": None, **change}
    expected = ["MEMBER m", f"  CLIENT      {'c' * 60}", f"  PROCESS     {'p' * 60}"]
    expected += [f"  {line}" for line in lines]
    columns = ("member", "client", "process", "assignment", "standby")
    assert shown(capsys, [row], columns).splitlines() == expected


def test_folded_values_are_escaped(capsys):
    text = shown(capsys, [{**MEMBER, "member": "m\n\x1b[2J"}], ("member", "client", "process"))
    assert text.splitlines()[0] == "MEMBER m\\n\\x1b[2J"


@pytest.mark.parametrize("output", ["wide", "json"])
def test_other_formats_are_never_folded(capsys, output):
    rows = partitions(COLUMNS_MAX + 1)
    text = shown(capsys, rows, output=output)
    assert json.loads(text) == rows if output == "json" else len(text.splitlines()) == 4


def test_empty_table_has_titles(capsys):
    assert shown(capsys, []) == "TOPIC  PARTITION  CLIENT\n"
