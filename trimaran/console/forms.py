"""Forms of the console: each has a token that only our pages have, and browsers send its origin, so no foreign page can
send one (CSRF).
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from contextlib import aclosing
from urllib.parse import parse_qsl

from starlette.requests import Request

from trimaran.errors.user_error import Exit, UserError

BODY_BYTES_MAX = 16 << 10
FIELDS_MAX = 20
_FORM = "application/x-www-form-urlencoded"
Fields = Mapping[str, str]


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


def needed(fields: Fields, name: str) -> str:
    if not (text := fields.get(name, "").strip()):
        raise UserError(
            f"{name} is empty",
            "it is required",
            "fill it in and send the form again",
            exit_code=Exit.USAGE,
        )
    return text


def count(fields: Fields, name: str) -> int:
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


def pairs(fields: Fields, name: str, separator: str) -> list[tuple[str, str]]:
    """Returns the names and values of a field that has one pair in each line. Raises UserError."""
    found = []
    for line in fields.get(name, "").splitlines():
        if not line.strip():
            continue
        key, has_separator, value = line.partition(separator)
        if not has_separator or not key.strip():
            raise UserError(
                f"{line[:80]!r} is not one of {name}",
                f"each line is written NAME{separator}VALUE",
                "correct the line and send the form again",
                exit_code=Exit.USAGE,
            )
        found.append((key.strip(), value.strip()))
    return found
