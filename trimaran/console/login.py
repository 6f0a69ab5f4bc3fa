"""The login of the console: one password, and sessions of browsers.

A browser sends the password once and gets a cookie; a program sends it with each request (`Authorization: Bearer`).
Without a password every client is accepted, so the console then listens on this machine only (`trimaran.cli.console`).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote

import trio

from trimaran.errors.user_error import Exit, UserError
from trimaran.wire.transport.connection.failed_logins import FailedLogins

PATH = "/login"
# The lifetime of a session is a working day; then a new login is required.
SESSION_SECONDS = 12 * 3600.0
SESSIONS_MAX = 1_000
# Guessing a password of twelve characters is hopeless while responses to wrong guesses are delayed.
PASSWORD_CHARACTERS_MIN = 12
# The delay for the first wrong password of an address; each further one doubles it.
WRONG_SECONDS = 0.1
# The number of wrong passwords that are delayed at a time; more wait for their turn.
HELD_MAX = 100


class LoginNeeded(UserError):
    """The request has no login, or a wrong password: 401."""


@dataclass(slots=True)
class ConsoleLogin:
    """The login; `password` is empty if every client may read. Not thread-safe: used on the event loop only."""

    password: str = ""
    cookie: str = "trimaran-console"
    is_secure: bool = False  # served with TLS, so that browsers send the cookie only over TLS
    # End of the session by digest.
    _sessions: MutableMapping[str, float] = field(default_factory=dict)
    _failed: FailedLogins = field(default_factory=FailedLogins)
    _held: trio.CapacityLimiter = field(default_factory=lambda: trio.CapacityLimiter(HELD_MAX))

    @property
    def is_wanted(self) -> bool:
        return bool(self.password)

    async def knows(self, headers: Mapping[str, str], address: str) -> bool:
        """Returns whether the sender of a request has logged in. The response to a wrong password is delayed."""
        if not self.password:
            return True
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return await self.is_right(given.strip(), address)
        until = self._sessions.get(_digest(self._session_in(headers)), 0.0)
        return until > time.monotonic()

    async def is_right(self, given: str, address: str) -> bool:
        """Compares in constant time. The response to a wrong password is delayed; the delay grows with the number of
        wrong passwords from `address`.

        The right password is never delayed: behind a proxy all clients have one address, and guesses must not lock them
        out.
        """
        if hmac.compare_digest(_digest(given), _digest(self.password)):
            return True
        seconds = self._failed.delay(address, WRONG_SECONDS, time.monotonic())
        async with self._held:
            await trio.sleep(seconds)
        return False

    def open_session(self) -> str:
        """Returns the Set-Cookie header of a new session."""
        now = time.monotonic()
        for known in [
            each_session for each_session, until in self._sessions.items() if until <= now
        ]:
            del self._sessions[known]
        if len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        session = secrets.token_urlsafe(32)
        self._sessions[_digest(session)] = now + SESSION_SECONDS
        return self._set_cookie(session, int(SESSION_SECONDS))

    def close_session(self, headers: Mapping[str, str]) -> str:
        """Returns the Set-Cookie header that removes the session."""
        self._sessions.pop(_digest(self._session_in(headers)), None)
        return self._set_cookie("", 0)

    def _set_cookie(self, value: str, seconds: int) -> str:
        # Lax, so that a link in a message opens a page. Forms also have a token.
        words = f"{self.cookie}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax"
        return f"{words}; Secure" if self.is_secure else words

    def _session_in(self, headers: Mapping[str, str]) -> str:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:  # a cookie of another service on this host
            return ""
        return "" if found is None else found.value


def _digest(text: str) -> str:
    """Returns a digest of fixed length, so that the time of a comparison does not reveal the length of the password."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def checked_password(text: str, origin: str) -> str:
    """Returns the password. Raises UserError if it is too short."""
    if len(text) < PASSWORD_CHARACTERS_MIN:
        raise UserError(
            f"the password of {origin} is too short",
            f"it has {len(text)} characters, and can be guessed",
            f"use {PASSWORD_CHARACTERS_MIN} or more, for example the output of: openssl rand -hex 16",
            exit_code=Exit.USAGE,
        )
    return text


def login_needed() -> LoginNeeded:
    return LoginNeeded(
        "no user is logged in",
        "this console has a password",
        "log in with a browser, or send the header Authorization: Bearer PASSWORD",
        exit_code=Exit.REFUSED,
    )


def wrong_password() -> LoginNeeded:
    return LoginNeeded(
        "this is not the password",
        "the console was started with another one",
        "write it again; the operator who started the console knows it",
        exit_code=Exit.REFUSED,
    )


def way_to_login(path: str, query: str) -> str:
    """Returns the address of the login page, with the page to return to."""
    return f"{PATH}?next={quote(f'{path}?{query}' if query else path, safe='')}"


def way_back(wanted: str) -> str:
    """Returns `wanted` if it is a page of ours, else the first page: no redirect leaves the console."""
    is_ours = (
        wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable()
    )
    return wanted if is_ours and wanted.isascii() else "/"
