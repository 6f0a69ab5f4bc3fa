"""`tokens list|create|renew|expire`: delegation tokens, with which jobs log in as the user who requested them."""

from __future__ import annotations

import base64
import datetime as dt
from typing import Annotated, Any

from cyclopts import Parameter

from trimaran.cli.connect import BROKERS, Brokers, DryRun
from trimaran.cli.output import Format, say, show_fields, show_rows
from trimaran.errors import refused
from trimaran.errors.user_error import Exit, UserError
from trimaran.wire.messages import (
    create_delegation_token,
    describe_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
)

Hmac = Annotated[str, Parameter(help="The HMAC of the token, as trimaran tokens create prints it.")]
_DAY_MS = 24 * 3600 * 1000


def list_tokens(*, brokers: Brokers = BROKERS, output: Format = "table") -> int:
    """Lists delegation tokens: your own, those that you may renew, and others if ACLs allow it. HMACs are not shown."""
    tokens = _tokens(brokers)
    rows = [
        {
            "token": token.token_id,
            "owner": f"{token.principal_type}:{token.principal_name}",
            "renewers": ",".join(
                f"{who.principal_type}:{who.principal_name}" for who in token.renewers
            ),
            "issued": _time(token.issue_timestamp),
            "expires": _time(token.expiry_timestamp),
            "ends": _time(token.max_timestamp),
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
    kind, name = _principal(owner) if owner else ("", "")
    request = create_delegation_token.CreateDelegationTokenRequest(
        owner_principal_type=kind,
        owner_principal_name=name,
        renewers=[
            create_delegation_token.CreatableRenewers(principal_type=kind, principal_name=name)
            for kind, name in map(_principal, renewer or ())
        ],
        max_lifetime_ms=-1 if days is None else round(days * _DAY_MS),
    )
    if dry_run:
        _tokens(brokers)  # refused if the cluster has no tokens
        say(f"would create a token owned by {owner or 'yourself'}; nothing was changed")
        return
    with brokers.connected() as client:
        response = client.call(None, request, retry_unknown=False)
        refused.check(response.error_code, "")
    show_fields(
        {
            "token": response.token_id,
            "hmac": base64.b64encode(response.hmac).decode(),
            "owner": f"{response.principal_type}:{response.principal_name}",
            "expires": _time(response.expiry_timestamp_ms),
            "ends": _time(response.max_timestamp_ms),
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
    period = -1 if days is None else round(days * _DAY_MS)
    request = renew_delegation_token.RenewDelegationTokenRequest(
        hmac=_bytes(hmac), renew_period_ms=period
    )
    if dry_run:
        _say_would(brokers, "renew", request.hmac)
        return
    _say_expiry(brokers, request)


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
    period = -1 if days is None else round(days * _DAY_MS)
    request = expire_delegation_token.ExpireDelegationTokenRequest(
        hmac=_bytes(hmac), expiry_time_period_ms=period
    )
    if dry_run:
        _say_would(brokers, "expire" if days is None else "set the expiry of", request.hmac)
        return
    _say_expiry(brokers, request)


def _tokens(brokers: Brokers) -> list[Any]:
    """Lists the tokens that the caller may see."""
    with brokers.connected() as client:
        response = client.call(
            None, describe_delegation_token.DescribeDelegationTokenRequest(owners=None)
        )
        refused.check(response.error_code, "")
    return list(response.tokens)


def _say_would(brokers: Brokers, verb: str, hmac: bytes) -> None:
    found = [token.token_id for token in _tokens(brokers) if token.hmac == hmac]
    if not found:
        raise UserError(
            "there is no token with this HMAC",
            "no token that you may see has it",
            "trimaran tokens list shows those that you may see",
            exit_code=Exit.REFUSED,
        )
    say(f"would {verb} token {found[0]}; nothing was changed")


def _say_expiry(brokers: Brokers, request: Any) -> None:
    with brokers.connected() as client:
        response = client.call(None, request, retry_unknown=False)
        refused.check(response.error_code, "")
    say(f"the token expires at {_time(response.expiry_timestamp_ms)}")


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
