"""The warning of `features downgrade` about groups with members; brokers give scripted responses."""

import pytest

from tests.trimaran.client.scripted import Client
from trimaran.cli.features import NAMED_MAX, _warn_of_members
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.list_groups import ListedGroup, ListGroupsResponse


def said(capsys, name, level, *groups, code=0):
    rows = [
        ListedGroup(group_id=group, protocol_type="", group_state=state, group_type=kind)
        for group, kind, state in groups
    ]
    first = ListGroupsResponse(error_code=code, groups=rows)
    client = Client(first, *[ListGroupsResponse(error_code=0, groups=[])] * 2)
    _warn_of_members(client, [(name, level)])
    return capsys.readouterr().err


@pytest.mark.parametrize("state", ["Stable", "NotReady"])
def test_groups_with_members_are_named(capsys, state):
    text = said(capsys, "streams.version", 0, ("app", "Streams", state), ("w", "Share", state))
    assert text == (
        "warning: 1 streams group with members: app; "
        "at streams.version=0 their requests are refused (UNSUPPORTED_VERSION)\n"
    )


@pytest.mark.parametrize("state", ["Empty", "Dead"])
def test_groups_without_members_are_left_out(capsys, state):
    assert said(capsys, "share.version", 0, ("w", "Share", state)) == ""


@pytest.mark.parametrize(("more", "told"), [(0, ";"), (1, " and 1 more;")])
def test_many_groups_are_counted(capsys, more, told):
    names = [f"w{number:02d}" for number in range(NAMED_MAX + more)]
    text = said(capsys, "share.version", 0, *((name, "Share", "Stable") for name in names))
    assert f": {', '.join(names[:NAMED_MAX])}{told}" in text


@pytest.mark.parametrize(("name", "level"), [("share.version", 2), ("metadata.version", 0)])
def test_other_levels_need_no_groups(capsys, name, level):
    assert said(capsys, name, level, ("w", "Share", "Stable")) == ""


def test_unknown_groups_do_not_stop_the_downgrade(capsys):
    text = said(capsys, "share.version", 0, code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert text.startswith("warning: the groups that need share.version are unknown: ")


def test_each_feature_has_its_own_warning(capsys):
    row = ListedGroup(group_id="app", protocol_type="", group_state="Stable", group_type="Streams")
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, *[ErrorCode.NONE] * 3]
    client = Client(*[ListGroupsResponse(error_code=code, groups=[row]) for code in codes])
    levels = [("metadata.version", 0), ("share.version", 0), ("streams.version", 0)]
    _warn_of_members(client, levels)
    unknown, found = capsys.readouterr().err.splitlines()
    assert unknown.startswith("warning: the groups that need share.version are unknown: ")
    assert found.startswith("warning: 3 streams groups with members: app, app, app; ")
