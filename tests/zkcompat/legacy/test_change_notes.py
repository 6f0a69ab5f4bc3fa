from trimaran.zkcompat.legacy.change_notes import newest_notes, written_by_tools
from trimaran.zkcompat.legacy.requests.admin_requests import RequestKind
from trimaran.zkcompat.legacy.tool_writes import (
    ToolWrite,
    is_of_interest,
    tool_write_of,
    topic_write,
)
from trimaran.zkcompat.tree.operations import FoundZnode

T = ToolWrite(RequestKind.CONFIG, "/config/topics/t")
ORDERS = ToolWrite(RequestKind.ACL, "/kafka-acl/Topic/orders")
PAY = ToolWrite(RequestKind.ACL, "/kafka-acl-extended/prefixed/Topic/pay")


def note(zxid, data):
    return FoundZnode(data, created_zxid=zxid, modified_zxid=zxid)


def test_newest_note_of_each_entity_is_used():
    found = {
        "/config/changes/config_change_0000000001": note(10, b'"t"'),
        "/config/changes/config_change_0000000002": note(
            20, b'{"version":2,"entity_path":"topics/t"}'
        ),
        "/config/changes/config_change_0000000003": note(30, b"nonsense"),
        "/kafka-acl-changes/acl_changes_0000000000": note(40, b"TOPIC:orders"),
        "/kafka-acl-extended-changes/acl_changes_0000000000": note(
            50, b'{"version":1,"resourceType":"TOPIC","name":"pay","patternType":"PREFIXED"}'
        ),
    }
    assert newest_notes(found) == {T: 20, ORDERS: 40, PAY: 50}


def test_tool_writes_before_it_notifies():
    def left(note_zxid, znode_zxid=None, gone=()):
        entities = {T.path: note(znode_zxid, b"")} if znode_zxid else {}
        return written_by_tools({T: note_zxid}, entities, dict(gone)) == [T]

    assert left(11, 10)
    assert not left(10, 10)  # one transaction: by a mirror
    assert not left(10, 12)  # written since, and not announced yet
    assert left(11, gone={T.path: 10})
    assert not left(11, gone={T.path: 11})
    assert not left(11)  # the znode did not exist


def test_watched_paths_have_their_kind():
    assert tool_write_of("/admin/delete_topics/t") == (
        RequestKind.DELETION,
        "/admin/delete_topics/t",
    )
    assert tool_write_of("/brokers/topics/t") == (RequestKind.TOPIC, "/brokers/topics/t")
    assert tool_write_of("/admin/reassign_partitions").kind is RequestKind.REASSIGNMENT
    for path in ("/admin", "/admin/delete_topics", "/brokers/topics", "/brokers/topics/t/partitions",
                 "/brokers/topics/t/partitions/0/state", "/config/changes"):  # fmt: skip
        assert tool_write_of(path) is None
    assert is_of_interest("/config/changes/config_change_1")
    assert is_of_interest("/config/users/a/clients/b")
    assert not is_of_interest("/brokers/topics/t/partitions/0/state")
    assert topic_write("/config/topics/t") == topic_write("/brokers/topics/t/partitions/0")
    assert topic_write("/config/users/t") is None
