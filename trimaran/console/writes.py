"""The changes that the console can make, if allowed: each is a POST of a form, which is checked and then logged.

A form has a token that only our pages have, and browsers send its origin, so no foreign page can send one (CSRF). Every
attempt is logged, whether done or refused.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote

from starlette.requests import Request

from trimaran.client.changes import (
    DELETE,
    SET,
    alter_configs,
    create_topic,
    delete_topic,
    elect_leaders,
    within_log,
)
from trimaran.client.group_kinds import kind_named
from trimaran.client.group_members import group_described
from trimaran.client.positions import parse_position
from trimaran.console import events
from trimaran.console.cluster import ConsoleCluster
from trimaran.console.page import PageRequest
from trimaran.console.pages.topic import TOPIC_RESOURCE, described
from trimaran.errors.user_error import Exit, UserError

audit = logging.getLogger("trimaran.console.audit")

BODY_BYTES_MAX = 16 << 10
FIELDS_MAX = 20
_FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class ConsoleWrite:
    """A change. `change` makes it and returns the path of a page with the result; `verb` is for the log."""

    path: str
    verb: str
    change: Callable[[ConsoleCluster, Mapping[str, str], PageRequest], str]


class Forged(UserError):
    """The request did not come from one of our forms: 403."""


def new_token() -> str:
    return secrets.token_urlsafe(24)


async def form_of(request: Request, token: str) -> dict[str, str]:
    """Returns the fields of one of our forms. Raises Forged, and UserError for a form that is too large."""
    fields = await fields_of(request)
    if not hmac.compare_digest(fields.pop("token", "").encode(), token.encode()):
        raise _forged()
    return fields


async def fields_of(request: Request) -> dict[str, str]:
    """Checks that a browser sent our origin, with or without a token. Raises as `form_of` does."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if site not in ("same-origin", "none") or kind != _FORM:
        raise _forged()
    body = await _body(request)
    try:
        return dict(parse_qsl(body.decode(), max_num_fields=FIELDS_MAX))
    except ValueError as error:
        raise _forged() from error


async def _body(request: Request) -> bytes:
    body = bytearray()
    async with aclosing(request.stream()) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) > BODY_BYTES_MAX:
                raise UserError(
                    "the form is too large",
                    f"it has more than {BODY_BYTES_MAX} bytes",
                    "use the command line for large changes",
                    exit_code=Exit.USAGE,
                )
    return bytes(body)


def _forged() -> Forged:
    return Forged(
        "this did not come from a form of this console",
        "its token is missing or old, as after a restart, or another site sent it",
        "load the page again, and send its form",
        exit_code=Exit.USAGE,
    )


def perform(write: ConsoleWrite, question: PageRequest, fields: Mapping[str, str], who: str) -> str:
    """Makes the change and logs it; returns the path of the next page. Raises UserError."""
    words = {**question.path, **fields}
    told = " ".join(f"{name}={value!r}" for name, value in words.items())
    try:
        page = write.change(question.cluster, fields, question)
    except Exception as error:
        events.CONSOLE_WRITE_REFUSED.log(
            audit, verb=write.verb, resource=told, user=who, reason=_why(error)
        )
        raise
    finally:
        question.cluster.forget()
    events.CONSOLE_WRITE.log(audit, verb=write.verb, resource=told, user=who)
    return page


def _why(error: Exception) -> str:
    return error.why if isinstance(error, UserError) else str(error)


def _needed(fields: Mapping[str, str], name: str) -> str:
    if not (text := fields.get(name, "").strip()):
        raise UserError(
            f"{name} is empty",
            "it is required",
            "fill it in and send the form again",
            exit_code=Exit.USAGE,
        )
    return text


def _count(fields: Mapping[str, str], name: str) -> int:
    """Returns the number, -1 for an empty field."""
    text = fields.get(name, "").strip()
    if text and not (text.isascii() and text.isdigit() and len(text) < 8):
        raise UserError(
            f"{name}={text[:20]} is not a number",
            "a number is required",
            "correct it, for example to 6",
            exit_code=Exit.USAGE,
        )
    return int(text) if text else -1


def _topic_page(name: str) -> str:
    return f"/topics/{quote(name, safe='')}"


def _create_topic(cluster: ConsoleCluster, fields: Mapping[str, str], _: PageRequest) -> str:
    name = _needed(fields, "name")
    with cluster.client() as client:
        create_topic(client, name, _count(fields, "partitions"), _count(fields, "replication"))
    return _topic_page(name)


def _delete_topic(cluster: ConsoleCluster, fields: Mapping[str, str], question: PageRequest) -> str:
    name = question.path["topic"]
    if fields.get("confirm") != name:
        raise UserError(
            f"{name} was not deleted",
            "the name in the form is not the name of the topic",
            "type its exact name; what is deleted cannot be restored",
            exit_code=Exit.USAGE,
        )
    with cluster.client() as client:
        delete_topic(client, name)
    return "/topics"


def _alter_config(cluster: ConsoleCluster, fields: Mapping[str, str], question: PageRequest) -> str:
    """Sets a config; an empty value resets it to its default."""
    name, key, value = question.path["topic"], _needed(fields, "key"), fields.get("value", "")
    change = (key, SET, value) if value else (key, DELETE, None)
    with cluster.client() as client:
        alter_configs(client, TOPIC_RESOURCE, name, [change])
    return _topic_page(name)


def _elect_leaders(cluster: ConsoleCluster, _: Mapping[str, str], question: PageRequest) -> str:
    name = question.path["topic"]
    with cluster.client() as client:
        indexes = [partition.partition_index for partition in described(client, name).partitions]
        told = elect_leaders(client, {name: indexes})
    failed = {f"{topic}-{index}: {why}" for (topic, index), why in told.items() if why}
    if failed:
        raise UserError(
            f"{len(failed)} of {len(indexes)} partitions keep their leader",
            "; ".join(sorted(failed)[:5]),
            "check that the preferred replicas are live and in sync",
            exit_code=Exit.REFUSED,
        )
    return _topic_page(name)


def _reset_offsets(
    cluster: ConsoleCluster, fields: Mapping[str, str], question: PageRequest
) -> str:
    """Resets the positions of a group, or those in one topic: committed offsets, of a streams group those of its input
    topics, of a share group its start offsets.
    """
    group, position = question.path["group"], parse_position(_needed(fields, "to"))
    topic = fields.get("topic", "").strip()
    with cluster.client() as client:
        described = group_described(client, group)
        kind = kind_named(described["type"])
        positions = kind.positions(client, described)
        wanted = [place for place in positions if topic in ("", place.topic)]
        if not wanted:
            raise UserError(
                f"group {group} has committed no offsets{f' of {topic}' if topic else ''}",
                "only offsets that the group has can be reset here",
                "use trimaran groups reset-offsets --topic to commit offsets of other topics",
                exit_code=Exit.USAGE,
            )
        after = {
            partition: within_log(client, partition, position.offset_in(client, partition))
            for partition in wanted
        }
        kind.set_positions(client, group, after)
    return f"/groups/{quote(group, safe='')}"


WRITES = (
    ConsoleWrite("/topics", "create topic", _create_topic),
    ConsoleWrite("/topics/{topic}/delete", "delete topic", _delete_topic),
    ConsoleWrite("/topics/{topic}/config", "alter config", _alter_config),
    ConsoleWrite("/topics/{topic}/elect", "elect leaders", _elect_leaders),
    ConsoleWrite("/groups/{group:path}", "reset offsets", _reset_offsets),
)
