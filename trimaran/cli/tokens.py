"""`tokens list|create|renew|expire`: delegation tokens, with which jobs log in as the user who asked for them."""

from __future__ import annotations

import base64
import datetime as dt
from typing import Annotated, Any

from cyclopts import Parameter

from trimaran.cli.connect import BROKERS, Brokers, DryRun
from trimaran.cli.output import Format, say, show_fields, show_rows
from trimaran.client.connect import check
from trimaran.errors import Exit, UserError

Hmac = Annotated[str, Parameter(help="The token's HMAC, as tokens create prints it.")]
_DAY_MS = 24 * 3600 * 1000


def list_tokens(*, brokers: Brokers = BROKERS, output: Format = "table") -> int:
    """Lists the tokens that one may see: one's own, those that one may renew, and by ACL others. Never an HMAC.

    Args:
        output: table, or json.
    """
    tokens = _tokens(brokers)
    rows = [
        {
            "token": one.token_id,
            "owner": f"{one.principal_type}:{one.principal_name}",
            "renewers": ",".join(
                f"{who.principal_type}:{who.principal_name}" for who in one.renewers
            ),
            "issued": _time(one.issue_timestamp),
            "expires": _time(one.expiry_timestamp),
            "ends": _time(one.max_timestamp),
        }
        for one in tokens
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
    """Makes a token and prints its id and HMAC, once: they are name and password of who logs in with it.

    Args:
        renewer: who else may lengthen or end its life, as User:bob.
        owner: for whom it is, as User:alice; oneself when not given.
        days: how long it may live at most; as long as the cluster allows when not given.
        output: table, or json.
    """
    from wire.messages.create_delegation_token import (
        CreatableRenewers,
        CreateDelegationTokenRequest,
    )

    kind, name = _principal(owner) if owner else ("", "")
    request = CreateDelegationTokenRequest(
        owner_principal_type=kind,
        owner_principal_name=name,
        renewers=[
            CreatableRenewers(principal_type=kind, principal_name=name)
            for kind, name in map(_principal, renewer or ())
        ],
        max_lifetime_ms=-1 if days is None else round(days * _DAY_MS),
    )
    if dry_run:
        _tokens(brokers)  # refused where there can be none
        say(f"would make a token of {owner or 'oneself'}; nothing was changed")
        return
    with brokers.connected() as client:
        answer = client.call(None, request, retry_unknown=False)
        check(answer.error_code, "")
    show_fields(
        {
            "token": answer.token_id,
            "hmac": base64.b64encode(answer.hmac).decode(),
            "owner": f"{answer.principal_type}:{answer.principal_name}",
            "expires": _time(answer.expiry_timestamp_ms),
            "ends": _time(answer.max_timestamp_ms),
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
    """Lets a token live on.

    Args:
        days: from now; as long as the cluster allows when not given.
    """
    from wire.messages.renew_delegation_token import RenewDelegationTokenRequest

    period = -1 if days is None else round(days * _DAY_MS)
    request = RenewDelegationTokenRequest(hmac=_bytes(hmac), renew_period_ms=period)
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
    """Ends the life of a token.

    Args:
        days: from now; at once when not given.
    """
    from wire.messages.expire_delegation_token import ExpireDelegationTokenRequest

    period = -1 if days is None else round(days * _DAY_MS)
    request = ExpireDelegationTokenRequest(hmac=_bytes(hmac), expiry_time_period_ms=period)
    if dry_run:
        _say_would(brokers, "end" if days is None else "shorten the life of", request.hmac)
        return
    _say_expiry(brokers, request)


def _tokens(brokers: Brokers) -> list[Any]:
    """Those that one may see."""
    from wire.messages.describe_delegation_token import DescribeDelegationTokenRequest

    with brokers.connected() as client:
        answer = client.call(None, DescribeDelegationTokenRequest(owners=None))
        check(answer.error_code, "")
    return list(answer.tokens)


def _say_would(brokers: Brokers, verb: str, hmac: bytes) -> None:
    found = [one.token_id for one in _tokens(brokers) if one.hmac == hmac]
    if not found:
        raise UserError(
            "there is no token with this HMAC",
            "none that one may see has it",
            "trimaran tokens list shows those there are",
            exit_code=Exit.REFUSED,
        )
    say(f"would {verb} token {found[0]}; nothing was changed")


def _say_expiry(brokers: Brokers, request: Any) -> None:
    with brokers.connected() as client:
        answer = client.call(None, request, retry_unknown=False)
        check(answer.error_code, "")
    say(f"the token expires at {_time(answer.expiry_timestamp_ms)}")


def _principal(text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise _wrong(f"{text} is no principal", "a principal is written User:NAME")
    return kind, name


def _bytes(hmac: str) -> bytes:
    try:
        return base64.b64decode(hmac, validate=True)
    except ValueError:
        raise _wrong("this is no HMAC", "give it as tokens create prints it, in base64") from None


def _wrong(what: str, fix: str) -> UserError:
    return UserError(what, "it is not of that form", fix, exit_code=Exit.USAGE)


def _time(at_ms: int) -> str:
    return dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC).isoformat(timespec="seconds")
