"""The refusals of members of a classic group: each request with one wrong field."""

from __future__ import annotations

import pytest

from tests.broker.groups.driver import Driver, subscription
from trimaran.wire.errors import ErrorCode

E = ErrorCode
STATIC = {"instance": "i"}
# Changes of a request by the static member of a stable group, and the code of the response.
OF_ALL = [
    ({}, E.NONE),
    ({"member_id": "nobody", "instance": None}, E.UNKNOWN_MEMBER_ID),
    ({"instance": "other"}, E.UNKNOWN_MEMBER_ID),
    ({"member_id": "nobody"}, E.FENCED_INSTANCE_ID),
    ({"generation": 0}, E.ILLEGAL_GENERATION),
    ({"generation": 2}, E.ILLEGAL_GENERATION),
]
OF_SYNC = [
    *OF_ALL,
    ({"protocol_type": "connect"}, E.INCONSISTENT_GROUP_PROTOCOL),
    ({"protocol_name": "sticky"}, E.INCONSISTENT_GROUP_PROTOCOL),
    ({"protocol_type": "consumer", "protocol_name": "range"}, E.NONE),
]


@pytest.fixture
def driver():
    """Returns a driver with a stable group of a static member, which leads, and a dynamic one."""
    found = Driver()
    protocols = [("range", subscription(["t"]))]
    found.join("s", client="s", protocols=protocols, **STATIC)
    found.join("d", client="d", version=3, protocols=protocols)
    found.advance(3)
    for name in "ds":
        found.sync(f"first {name}", found.answers[name].member_id, 1, **of(name))
    return found


def of(name):
    return STATIC if name == "s" else {}


def request(driver, changes, generation=1):
    asked = {"member_id": driver.answers["s"].member_id, "generation": generation} | STATIC
    return asked | changes


@pytest.mark.parametrize(("changes", "code"), OF_SYNC)
def test_sync_is_refused(driver, changes, code):
    driver.sync("again", **request(driver, changes))
    assert driver.answers["again"].error_code == code


@pytest.mark.parametrize(("changes", "code"), OF_ALL)
def test_heartbeat_or_commit_is_refused(driver, changes, code):
    asked = request(driver, changes)
    assert driver.heartbeat(**asked) is code
    assert driver.commit_offset(7, **asked) is code
    assert driver.offset() == (None if code else 7)


def test_rebalance_is_announced_to_each_request(driver):
    driver.join("new", client="n", version=3)
    asked = request(driver, {})
    driver.sync("again", **asked)
    assert driver.answers["again"].error_code == E.REBALANCE_IN_PROGRESS
    assert driver.heartbeat(**asked) is E.REBALANCE_IN_PROGRESS
    assert driver.commit_offset(7, **asked) is E.NONE, "it may still commit its work"


@pytest.mark.parametrize(
    ("identity", "code"),
    [
        (("nobody", None), E.UNKNOWN_MEMBER_ID),
        (("nobody", "i"), E.FENCED_INSTANCE_ID),
        (("", "other"), E.UNKNOWN_MEMBER_ID),
        (("", "i"), E.NONE),
    ],
)
def test_leave_is_refused(driver, identity, code):
    assert driver.leave(identity) == [code]
    assert len(driver.groups["g"].members) == (2 if code else 1)
