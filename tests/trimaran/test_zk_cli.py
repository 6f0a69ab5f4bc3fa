"""The warnings and errors of `trimaran zk mirror` about its file before it starts."""

import logging

import pytest

from trimaran.cli import zk
from trimaran.cli.zk import mirror
from trimaran.errors.user_error import Exit
from trimaran.zkcompat.commands.tree_views import ZooKeeperStatus


@pytest.fixture
def own_handlers(monkeypatch):
    """Restores logging, because the mirror's applies to the whole process."""
    root = logging.getLogger()
    level, room = root.level, logging.getLogger("trimaran.zkcompat")
    monkeypatch.setattr(root, "handlers", [])
    yield
    root.setLevel(level)
    room.setLevel(logging.NOTSET)


@pytest.mark.usefixtures("own_handlers")
def test_ineffective_keys_are_reported_once(tmp_path, capsys):
    file = tmp_path / "server.properties"
    file.write_text(
        "node.id=1\nzookeeper.connect=h:1\nzookeeper.metadata.migration.enable=true\n"
        "zookeeper.max.in.flight.requests=5\nnum.io.threads=8\nzookeeper.session.timeout.ms=now\n"
    )
    with pytest.raises(Exception, match=r"zookeeper\.session\.timeout\.ms=now"):
        mirror(controllers="127.0.0.1:1", data=tmp_path, config=file)
    warnings = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    (line,) = warnings
    assert line.startswith(
        f"warning: {file}:4: zookeeper.max.in.flight.requests has no effect here"
    )


def test_tree_without_mirror_is_explained(monkeypatch, capsys):
    fields = dict.fromkeys(ZooKeeperStatus.__slots__)
    empty = ZooKeeperStatus(
        **{
            **fields,
            **dict.fromkeys(("standbys", "live_brokers", "unreadable"), ()),
            **dict.fromkeys(("topics", "asked_ms"), 0),
        }
    )
    monkeypatch.setattr("trimaran.zkcompat.commands.tree_views.status", lambda *_: empty)
    monkeypatch.setattr(zk, "zookeeper_to_ask", lambda *_: "z:1")
    assert zk.status() == Exit.NO
    assert "no mirror is alive: is one running?" in capsys.readouterr().err
