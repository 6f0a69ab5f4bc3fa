"""A tool's change, applied to an entity that the quorum has changed."""

import json

import pytest

from tests.zkcompat import build
from trimaran.zkcompat.legacy.requests.admin_requests import RequestKind
from trimaran.zkcompat.legacy.three_way_merge import three_way_merge
from trimaran.zkcompat.znodes.scram_credential import scram_text

SEEN = {"retention.ms": "7", "segment.bytes": "1"}
TEXT = scram_text(build.scram("alice"))
TURNED = ",".join(reversed(TEXT.split(",")))


def config(entries):
    return None if entries is None else json.dumps({"version": 1, "config": entries}).encode()


def acls(users):
    if users is None:
        return None
    entry = {"permissionType": "Allow", "host": "*", "operation": "Read"}
    return json.dumps(
        {"version": 1, "acls": [{"principal": f"User:{user}", **entry} for user in users]}
    ).encode()


@pytest.mark.parametrize(
    ("wanted", "before", "now", "expected"),
    [
        (SEEN, SEEN, {"retention.ms": "8"}, {"retention.ms": "8"}),
        ({**SEEN, "segment.bytes": "2"}, SEEN, {"retention.ms": "8"},
         {"retention.ms": "8", "segment.bytes": "2"}),
        ({"segment.bytes": "1"}, SEEN, {**SEEN, "cleanup.policy": "compact"},
         {"segment.bytes": "1", "cleanup.policy": "compact"}),
        ({"a": "1"}, None, None, {"a": "1"}),
        (None, SEEN, {**SEEN, "a": "1"}, {"a": "1"}),
        ({"a": "2"}, {"a": "1"}, {"a": "3"}, {"a": "2"}),  # the tool was the last
        # Revoked since, in any order of its parts.
        ({"SCRAM-SHA-256": TURNED, "a": "2"}, {"SCRAM-SHA-256": TEXT}, {}, {"a": "2"}),
        ({"SCRAM-SHA-256": TURNED}, {}, {}, {"SCRAM-SHA-256": TURNED}),
        ({"SCRAM-SHA-256": "nonsense"}, {"SCRAM-SHA-256": TEXT}, {}, {"SCRAM-SHA-256": "nonsense"}),
    ],
)  # fmt: skip
def test_config_changes_of_both_are_merged(wanted, before, now, expected):
    found = three_way_merge(RequestKind.CONFIG, config(wanted), config(before), config(now))
    assert json.loads(found)["config"] == expected


@pytest.mark.parametrize(
    ("wanted", "before", "now", "expected"),
    [
        ("ab", "a", "ac", "abc"),
        ("b", "ab", "abc", "bc"),
        (None, "ab", "abc", "c"),
        ("a", "a", "", ""),
        ("ab", None, None, "ab"),
    ],
)
def test_acl_changes_of_both_are_merged(wanted, before, now, expected):
    found = three_way_merge(RequestKind.ACL, acls(wanted), acls(before), acls(now))
    assert sorted(acl["principal"][-1] for acl in json.loads(found)["acls"]) == list(expected)


@pytest.mark.parametrize("kind", [RequestKind.CONFIG, RequestKind.ACL])
def test_unreadable_data_is_returned_unchanged(kind):
    for data in (b"nonsense", b"[]", b'{"config":7,"acls":7}'):
        assert three_way_merge(kind, data, None, None) == data
