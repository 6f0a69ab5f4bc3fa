"""The commands of docs/records.md, run line by line as printed."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.cluster.processes import ROOT
from tests.wire.values.naive_registry import naive_registry
from trimaran.cli.app import run
from trimaran.testing import EmbeddedKafka

PAGE = (ROOT / "docs" / "records.md").read_text()
LINES = re.findall(r"^trimaran (.*)$", PAGE, re.MULTILINE)
SALE = {"type": "record", "name": "Sale", "fields": [{"name": "id", "type": "long"}]}
# For each command, by its beginning: the number of lines that it prints, and its message.
EXPECTED = {
    "produce orders": (0, "2 records acknowledged\n"),
    "produce copy": (0, "8 records acknowledged\n"),
    "produce": (0, "1 record acknowledged\n"),
    "consume orders -e -G": (8, ""),
    "consume orders payments": (8, ""),
    "consume orders": (8, ""),
    "consume --include": (4, ""),
    "consume": (1, ""),
    "groups lag": (2, ""),
}


@pytest.fixture
def kafka():
    with EmbeddedKafka({"num.partitions": "3"}) as kafka:
        kafka.create_topic("payments")
        kafka.create_topic("orders", partitions=3)
        yield kafka


def test_page_runs_as_printed(kafka, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("trimaran.cli.app._end_like_ctrl_c", lambda: None)  # this process continues
    Path("lines.txt").write_text("k1:one\nk2:NIL\n")
    Path("parts.txt").write_text("k1|a=1|one\nk2||two\n")
    Path("sales.txt").write_text('{"id": 7}\n')
    Path("sale.avsc").write_text(json.dumps(SALE))
    with naive_registry() as registry:
        for subject in ("sales-value", "sales-copy-value"):
            registry.register(subject, SALE)
        for line in LINES:
            command, _, file = line.replace("$REGISTRY", registry.url).partition(" > ")
            with pytest.raises(SystemExit) as ended:
                run([*shlex.split(command), "-b", kafka.bootstrap])
            said = capsys.readouterr()
            if file:
                Path(file).write_text(said.out)
            expected = next(EXPECTED[start] for start in EXPECTED if line.startswith(start))
            found = (len(said.out.splitlines()), said.err, ended.value.code)
            assert found == (*expected, 0), line


def test_page_names_every_field():
    """A row has these fields at most; `consume --help` says the rest."""
    parts = {
        f"{part}{end}" for part in ("key", "value") for end in ("", "_base64", "_schema", "_error")
    }
    for name in {"headers", "partition", "timestamp_ms", "topic", "offset", "deliveries", *parts}:
        assert f"`{name}`" in PAGE
