"""Groups of all kinds with their lag; and one of them with its members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trimaran.client.groups import (
    SHARE,
    age_seconds,
    committed_offsets,
    described_group,
    group_rows,
    lag_in_records,
    lag_rows,
    share_offsets,
    total_lag,
)
from trimaran.console.page import NotHere, Page, Question, Row, table

if TYPE_CHECKING:
    from wire.blocking import BlockingClient

COLUMNS = ("group", "type", "state", "coordinator")


def view(question: Question) -> dict[str, Any]:
    """The lag only of the groups on the page: it takes requests for each."""
    with question.cluster.client() as client:
        rows = group_rows(client)
        shown = table(
            question, rows, columns=COLUMNS, sort="group", search=("group", "type", "state")
        )
        for row in shown["rows"]:
            row.update(_lag(client, row))
    return shown


def _lag(client: BlockingClient, row: Row) -> Row:
    """In records, and the age of the first record that the farthest partition has not consumed."""
    group = row["group"]
    ask = share_offsets if row["type"] == SHARE else committed_offsets
    rows = lag_in_records(client, ask(client, group))
    behind = max(rows, key=lambda one: one["lag"] or 0, default=None)
    seconds = None
    if behind is not None:
        seconds = (
            age_seconds(client, behind["topic"], behind["partition"], behind["committed"])
            if behind["lag"]
            else 0.0
        )
    return {
        "topics": len({one["topic"] for one in rows}),
        "lag": total_lag(rows) if rows else None,
        "lag_seconds": seconds,
    }


def view_one(question: Question) -> dict[str, Any]:
    name = question.path["group"]
    with question.cluster.client() as client:
        row = next((one for one in group_rows(client) if one["group"] == name), None)
        if row is None:
            raise NotHere(
                f"there is no group {name[:249]}",
                "no coordinator lists it",
                "the list of groups shows what there is, and what you may see",
            )
        answer = described_group(client, name, row["type"])
        offsets = lag_rows(client, name, row["type"])
    shown = table(
        question,
        offsets,
        columns=("topic", "partition", "lag", "lag_seconds"),
        sort="topic",
        search=("topic",),
    )
    return {
        **row,
        "members": [_member(one) for one in answer.members],
        "lag": total_lag(offsets),
        "lag_seconds": max((one["lag_seconds"] or 0 for one in offsets), default=None),
        **shown,
    }


def _member(member: Any) -> Row:
    return {
        "member": member.member_id,
        "client": member.client_id,
        "host": member.client_host,
        "instance": getattr(member, "group_instance_id", None)
        or getattr(member, "instance_id", None),
        "assigned": _assigned(member),
    }


def _assigned(member: Any) -> list[str] | None:
    """Partitions as `topic-0`, where the answer says them so that we can read it."""
    from wire.errors import RemoteProtocolError

    assignment = getattr(member, "assignment", None)
    if assignment is not None and hasattr(assignment, "topic_partitions"):
        return [
            f"{one.topic_name}-{index}"
            for one in assignment.topic_partitions
            for index in one.partitions
        ]
    data = getattr(member, "member_assignment", None)
    if not data:
        return None
    try:
        return classic_assignment(bytes(data))
    except RemoteProtocolError:
        return None


def classic_assignment(data: bytes) -> list[str]:
    """Of a member of a classic consumer group. Raises RemoteProtocolError: it is none."""
    from wire.messages.consumer_protocol import decode_assignment

    return [
        f"{one.topic}-{index}"
        for one in decode_assignment(data).assigned_partitions
        for index in one.partitions
    ]


PAGE = Page("/groups", "Groups", "groups.html", view)
PAGE_OF_ONE = Page("/groups/{group:path}", "Group", "group.html", view_one)
