"""`meta.properties`: the identity that each text gives, or the reason why it gives none."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from trimaran.log.directories import meta_properties
from trimaran.log.directories.meta_properties import (
    FILE_NAME,
    MetaProperties,
    MetaPropertiesError,
    new_directory_id,
)

NIL, ID = bytes(16), bytes(range(16))
ID_TEXT = "AAECAwQFBgcICQoLDA0ODw"
OURS = (
    b"#crc32c 58b4423b\nversion=1\ncluster.id=c1\nnode.id=11\ndirectory.id=AAECAwQFBgcICQoLDA0ODw\n"
)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (f"version=1 cluster.id=c1 node.id=11 directory.id={ID_TEXT}", ("c1", 11, ID, 1)),
        (f"version=1 cluster.id=c1 node.id=11 directory.id={ID_TEXT} x=y", ("c1", 11, ID, 1)),
        ("version=1 cluster.id=c1 node.id=11", ("c1", 11, NIL, 1)),
        ("version=0 cluster.id=c1 broker.id=11", ("c1", 11, NIL, 0)),
        ("broker.id=11", ("", 11, NIL, 0)),
        ("cluster.id=c== broker.id=0", ("c==", 0, NIL, 0)),
        ("version=1 node.id=11", "has no cluster.id"),
        ("version=1 cluster.id=c1 broker.id=11", "has no node.id"),
        ("version=0 cluster.id=c1 node.id=11", "has no broker.id"),
        ("version=2 cluster.id=c1 node.id=11", "version 2 where 0 and 1 are known"),
        ("version=-1 cluster.id=c1 node.id=11", "version -1 where 0 and 1 are known"),
        ("version=1 cluster.id=c1node.id=11", "'c1node.id=11' is no cluster.id"),
        ("version=1 cluster.id=c1 node.id=x", "is damaged"),
        ("version=1 cluster.id=c1 node.id=11 directory.id=x", "is damaged"),
        ("version=1 cluster.id=c1 node.id=11 z=1 y=1", "no directory.id, but 'y'"),
        ("", "it is empty"),
    ],
)
def test_text_gives_identity_or_reason(tmp_path, lines, expected):
    (tmp_path / FILE_NAME).write_text("\n".join(lines.split()) + "\n")
    if isinstance(expected, str):
        with pytest.raises(MetaPropertiesError, match=expected) as refused:
            MetaProperties.load(tmp_path)
        assert str(tmp_path / FILE_NAME) in str(refused.value)
    else:
        found = MetaProperties.load(tmp_path)
        assert found == MetaProperties(*expected)
        assert found.has_directory_id is (expected[2] == ID)


def test_missing_or_unreadable_file_is_refused(tmp_path):
    with pytest.raises(MetaPropertiesError, match="is missing: the directory is not formatted"):
        MetaProperties.load(tmp_path)
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(MetaPropertiesError, match="cannot be read: not a regular file"):
        MetaProperties.load(tmp_path)


def test_saved_file_has_a_checksum(tmp_path):
    path = tmp_path / FILE_NAME
    MetaProperties("c1", 11, ID).save(tmp_path)
    assert path.read_bytes() == OURS
    assert MetaProperties.load(tmp_path) == MetaProperties("c1", 11, ID, 1)
    path.write_bytes(OURS.replace(b"=11", b"=12"))
    with pytest.raises(MetaPropertiesError, match="remove the line of the checksum"):
        MetaProperties.load(tmp_path)
    MetaProperties("c1", 11, ID, version=0).save(tmp_path)
    assert b"\nversion=0\ncluster.id=c1\nbroker.id=11\n" in path.read_bytes()
    assert MetaProperties.load(tmp_path) == MetaProperties("c1", 11, ID, 0)


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "expected"),
    [
        (None, None, None),
        ("c1", 11, None),
        ("c2", None, "d belongs to cluster c1, this process is of cluster c2"),
        (None, 12, "d belongs to node 11, this process is of node 12"),
        (None, 0, "d belongs to node 11, this process is of node 0"),
        ("c1", 10, "d belongs to node 11, this process is of node 10"),
    ],
)
def test_directory_of_another_owner_is_refused(cluster_id, node_id, expected):
    ours = MetaProperties("c1", 11, ID)
    if expected is None:
        assert ours.check("d", cluster_id=cluster_id, node_id=node_id) is None
    else:
        with pytest.raises(MetaPropertiesError, match=expected):
            ours.check("d", cluster_id=cluster_id, node_id=node_id)


def test_new_id_is_neither_reserved_nor_an_option(monkeypatch):
    reserved, like_option, first = (99).to_bytes(16), b"\xf8" * 16, (100).to_bytes(16)
    made = iter([reserved, like_option, first])
    monkeypatch.setattr(meta_properties, "uuid4", lambda: SimpleNamespace(bytes=next(made)))
    found = MetaProperties("c1", 11, NIL).with_directory_id()
    assert found == MetaProperties("c1", 11, first)
    made = iter([like_option, bytes(15) + b"\x64"])
    assert new_directory_id() == first
