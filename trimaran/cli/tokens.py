"""`tokens list|create|renew|expire`: delegation tokens, with which jobs log in as the user who requested them."""

from __future__ import annotations

import base64
import datetime as dt
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from trimaran.cli.connect import BROKERS, Brokers, DryRun
from trimaran.cli.output import Format, say, show_fields, show_rows
from trimaran.client import tokens as client_tokens
from trimaran.errors.user_error import Exit, UserError

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient

Hmac = Annotated[str, Parameter(help="The HMAC of the token, as trimaran tokens create prints it.")]
_DAY_MS = 24 * 3600 * 1000


def list_tokens(*, brokers: Brokers = BROKERS, output: Format = "table") -> int:
    """Lists delegation tokens: your own, those that you may renew, and others if ACLs allow it. HMACs are not shown."""
    with brokers.connected() as client:
        tokens = client_tokens.token_rows(client)
    rows = [
        {
            "token": token["token"],
            "owner": token["owner"],
            "renewers": ",".join(token["renewers"]),
            "issued": _time(token["issued_ms"]),
            "expires": _time(token["expires_ms"]),
            "ends": _time(token["ends_ms"]),
        }
        for token in tokens
    ]
    columns = ["token", "owner", "renewers", "issued", "expires", "ends"]
    show_rows(rows, output, columns=columns)
    return Exit.OK


def create(
    *,
    renewer: Annotated[list[str] | None, Parameter(name="--renewer")] = None,
    owner: str | None = None,
    days: float | None = None,
    dry_run: DryRun = False,
    brokers: Brokers = BROKERS,
    output: Format = "table",
) -> None:
    """Creates a delegation token and prints its id and HMAC, which are the user name and password to log in with.

    The HMAC is shown only here.

    Args:
        renewer: Another principal that may renew or expire it, such as User:bob. May be repeated.
        owner: The owner, such as User:alice; by default yourself.
        days: The longest life of the token in days; by default as long as the cluster allows.
    """
    principal = _principal(owner) if owner else client_tokens.YOURSELF
    renewers = [_principal(name) for name in renewer or ()]
    life_ms = client_tokens.AS_LONG_AS_ALLOWED_MS if days is None else round(days * _DAY_MS)
    with brokers.connected() as client:
        if dry_run:
            client_tokens.token_rows(client)  # fails if the cluster does not support tokens
            say(f"would create a token owned by {owner or 'yourself'}; nothing was changed")
            return
        token = client_tokens.create_token(client, principal, renewers, life_ms)
    show_fields(
        {
            "token": token["token"],
            "hmac": base64.b64encode(token["hmac"]).decode(),
            "owner": token["owner"],
            "expires": _time(token["expires_ms"]),
            "ends": _time(token["ends_ms"]),
        },
        output,
    )


def renew(
    hmac: Hmac,
    /,
    *,
    days: float | None = None,
    dry_run: DryRun = False,
    brokers: Brokers = BROKERS,
) -> None:
    """Extends the life of a delegation token.

    Args:
        days: Days from now; by default as long as the cluster allows.
    """
    given = _bytes(hmac)
    period_ms = client_tokens.AS_LONG_AS_ALLOWED_MS if days is None else round(days * _DAY_MS)
    with brokers.connected() as client:
        if dry_run:
            _say_would(client, "renew", given)
            return
        expires_ms = client_tokens.renew_token(client, given, period_ms)
    _say_expiry(expires_ms)


def expire(
    hmac: Hmac,
    /,
    *,
    days: float | None = None,
    dry_run: DryRun = False,
    brokers: Brokers = BROKERS,
) -> None:
    """Expires a delegation token, now or earlier than planned.

    Args:
        days: Days from now; by default it expires immediately.
    """
    given = _bytes(hmac)
    period_ms = client_tokens.AT_ONCE_MS if days is None else round(days * _DAY_MS)
    with brokers.connected() as client:
        if dry_run:
            _say_would(client, "expire" if days is None else "set the expiry of", given)
            return
        expires_ms = client_tokens.expire_token(client, given, period_ms)
    _say_expiry(expires_ms)


def _say_would(client: BlockingClient, verb: str, hmac: bytes) -> None:
    rows = client_tokens.token_rows(client)
    found = [row["token"] for row in rows if row["hmac"] == hmac]
    if not found:
        raise UserError(
            "there is no token with this HMAC",
            "no token that you may see has it",
            "trimaran tokens list shows those that you may see",
            exit_code=Exit.REFUSED,
        )
    say(f"would {verb} token {found[0]}; nothing was changed")


def _say_expiry(at_ms: int) -> None:
    say(f"the token expires at {_time(at_ms)}")


def _principal(text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise _wrong(f"{text} is not a principal", "write it as User:NAME")
    return kind, name


def _bytes(hmac: str) -> bytes:
    try:
        return base64.b64decode(hmac, validate=True)
    except ValueError:
        raise _wrong(
            "this is not an HMAC", "give it in base64, as trimaran tokens create prints it"
        ) from None


def _wrong(what: str, fix: str) -> UserError:
    return UserError(what, "it does not have that form", fix, exit_code=Exit.USAGE)


def _time(at_ms: int) -> str:
    return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).isoformat(timespec="seconds")
