"""Certificates that are expired, expire soon, or are not valid yet, as text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from trimaran.wire.security.tls.certificate import Certificate, certificates

SOON = timedelta(days=30)
"""The usual tools renew certificates of 90 days after two thirds of that time, a month before their end."""
RENEW = "have it issued again; nodes and commands refuse each other when it has expired"


def doubts(pem: str, now: datetime) -> Iterator[str]:
    """Yields a sentence for each certificate of the PEM text that is expired, expires soon or is not valid yet."""
    for each in certificates(pem):
        if (told := doubt(each, now)) is not None:
            yield told


def doubt(certificate: Certificate, now: datetime) -> str | None:
    """Returns a sentence about a certificate that is expired, expires soon or is not valid yet; otherwise None."""
    begin, end, name = certificate.not_before, certificate.not_after, certificate.subject
    if now > end:
        return f"the certificate of {name} expired {_duration(now - end)} ago, at {_text(end)}"
    if now < begin:
        return (
            f"the certificate of {name} is not valid before {_text(begin)}: is the clock of this machine right "
            f"({_text(now)})?"
        )
    if end - now < SOON:
        return f"the certificate of {name} expires in {_duration(end - now)}, at {_text(end)}"
    return None


def _duration(time: timedelta) -> str:
    for name, unit in (("day", timedelta(days=1)), ("hour", timedelta(hours=1))):
        if (count := time // unit) >= 1:
            return f"{count} {name}{'' if count == 1 else 's'}"
    return "less than an hour"


def _text(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
