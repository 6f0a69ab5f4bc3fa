"""The views of groups: a row for each kind, with its states, columns of tables, and texts of Kafka's tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from trimaran.cli import kafka_group_text
from trimaran.cli.output import put, say

Row = Mapping[str, Any]
Kind = Literal["classic", "consumer", "share", "streams"]
Kinds = Annotated[
    list[Kind] | None,
    Parameter(name="--type", negative=(), help="Only groups of this type. May be repeated."),
]

_ANY = ("Stable", "Empty", "Dead")
_REBALANCING = ("Assigning", "Reconciling")
_OFFSETS_WITHOUT_MEMBER = ("topic", "partition", "committed", "end", "lag", "lag_seconds")
_OFFSETS = (*_OFFSETS_WITHOUT_MEMBER, "client", "host")
_STATE = ("group", "type", "state", "assignor", "epoch", "coordinator", "members")


@dataclass(frozen=True, slots=True)
class GroupView:
    """The view of a kind of group. `states` are Kafka's (`GroupState`). `say_state` prints the sentence of Kafka's tool
    about a group that is not stable; it gets the group and the name of the view.
    """

    states: tuple[str, ...]
    kafka_offsets: Callable[[Row, Sequence[Row]], str]
    kafka_members: Callable[[Row], str]
    kafka_state: Callable[[Row], str]
    say_state: Callable[[Row, str], None]
    member_columns: tuple[str, ...] = (
        "member",
        "instance",
        "client",
        "host",
        "partitions",
        "assignment",
    )
    offset_columns: tuple[str, ...] = _OFFSETS
    state_columns: tuple[str, ...] = _STATE


def _say_state_of_consumers(group: Row, _view: str) -> None:
    if group["state"] == "Empty":
        say(f"\nConsumer group '{group['group']}' has no active members.")
    elif group["state"] != "Stable":
        say(f"\nWarning: Consumer group '{group['group']}' is rebalancing.")


def _say_state_of_shares(group: Row, view: str) -> None:
    if group["state"] == "Empty" and view != "offsets":
        say(f"\nShare group '{group['group']}' has no active members.")


def _say_state_of_streams(group: Row, view: str) -> None:
    """Prints the sentence on stdout, and only for the view `state`, as the tool does: its other views of a group
    without members are empty.
    """
    if group["state"] == "Empty" and view == "state":
        put(f"\nError: Streams group '{group['group']}' has no active members.")


_CLASSIC = GroupView(
    ("PreparingRebalance", "CompletingRebalance", *_ANY),
    kafka_group_text.consumer_offsets,
    kafka_group_text.consumer_members,
    kafka_group_text.consumer_state,
    _say_state_of_consumers,
)
VIEWS = {
    "classic": _CLASSIC,
    "consumer": replace(_CLASSIC, states=(*_REBALANCING, *_ANY)),
    "share": GroupView(
        _ANY,
        kafka_group_text.share_offsets,
        kafka_group_text.share_members,
        kafka_group_text.share_state,
        _say_state_of_shares,
        member_columns=("member", "client", "host", "topics", "partitions", "assignment"),
        offset_columns=_OFFSETS_WITHOUT_MEMBER,
    ),
    "streams": GroupView(
        ("NotReady", *_REBALANCING, *_ANY),
        kafka_group_text.streams_offsets,
        kafka_group_text.streams_members,
        kafka_group_text.streams_state,
        _say_state_of_streams,
        member_columns=(
            "member",
            "process",
            "client",
            "host",
            "endpoint",
            "assignment",
            "standby",
            "warmup",
        ),
        offset_columns=_OFFSETS_WITHOUT_MEMBER,
        state_columns=(*_STATE[:5], "topology_epoch", *_STATE[5:]),
    ),
}
STATES = tuple(dict.fromkeys(state for view in VIEWS.values() for state in view.states))
