"""`users list|add|remove`: users that may log in by SCRAM. Passwords come from a prompt, a file or the environment,
never from an argument, which is visible in the list of processes.
"""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from trimaran.cli import names
from trimaran.cli.connect import BROKERS, Brokers, DryRun
from trimaran.cli.output import Format, say, show_rows
from trimaran.client import users as client_users
from trimaran.errors import refused
from trimaran.errors.user_error import Exit, UserError

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient

Mechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
Mechanisms = Annotated[list[Mechanism] | None, Parameter(name=["-m", "--mechanism"])]
_BOTH: tuple[Mechanism, ...] = ("SCRAM-SHA-256", "SCRAM-SHA-512")
# Twice the minimum of RFC 7677: a login costs the client a few milliseconds.
_ITERATIONS = 8192


def list_users(*users: str, brokers: Brokers = BROKERS, output: Format = "table") -> int:
    """Lists SCRAM users with their mechanisms. Passwords and keys are not shown.

    Exit code 1 if one of several named users does not exist.

    Args:
        users: Users to list; each may be a pattern, such as 'billing-*'; by default all.
    """
    with brokers.connected() as client:
        is_listed = not users or any(map(refused.is_pattern, users))
        rows = client_users.user_rows(client, None if is_listed else users)
        known = {str(row["user"]): None for row in rows}
        found, missing = names.each(
            names.expanded(users, lambda: known) if users else known,
            lambda name: _known(known, name),
        )
    shown = [row for row in rows if row["user"] in found]
    show_rows(shown, output, columns=["user", "mechanism", "iterations"])
    return names.end(missing)


def _known(known: Collection[str], name: str) -> str:
    if name not in known:
        raise refused.no_user(name)
    return name


def add(
    name: str,
    /,
    *,
    mechanism: Mechanisms = None,
    iterations: int = _ITERATIONS,
    password_file: Path | None = None,
    password_variable: str | None = None,
    dry_run: DryRun = False,
    brokers: Brokers = BROKERS,
) -> None:
    """Adds a SCRAM user, or changes the password.

    The password is read from a prompt or from stdin, unless an option names another place.

    Args:
        name: The user name.
        mechanism: SCRAM-SHA-256 or SCRAM-SHA-512; by default both.
        iterations: 4096 to 16384; a larger number makes guessing the password slower, and each login, too.
        password_file: A file with the password in its first line.
        password_variable: The name of an environment variable with the password.
    """
    password = _password(password_file, password_variable)
    wanted = mechanism or _BOTH
    with brokers.connected() as client:
        if dry_run:
            changes = set(wanted).intersection(client_users.mechanisms_of(client, name))
            verb = "change the password of" if changes else "add"
            say(f"would {verb} {name}, with {', '.join(wanted)}; nothing was changed")
            return
        client_users.set_password(client, name, wanted, password, iterations)
    say(f"{name} can log in with {', '.join(wanted)}")


def remove(
    *users: str,
    mechanism: Mechanisms = None,
    dry_run: DryRun = False,
    brokers: Brokers = BROKERS,
) -> None:
    """Removes SCRAM users. If one of them does not exist, none is removed.

    Existing sessions last until they end (see connections.max.reauth.ms).

    Args:
        users: The users; each may be a pattern, such as 'billing-*'.
        mechanism: Only the passwords of this mechanism; by default all. May be repeated.
    """
    names.ensure_named(users, "user", "removed")
    with brokers.connected() as client:
        found, missing = names.each(
            names.expanded(users, lambda: [str(row["user"]) for row in _every(client)]),
            lambda name: (name, _mechanisms(client, name, mechanism)),
        )
        if missing is not None:
            raise missing
        for name, wanted in found:
            if dry_run:
                say(f"would remove {name} with {', '.join(wanted)}; nothing was changed")
            else:
                client_users.delete_passwords(client, name, wanted)
                say(f"{name} can no longer log in with {', '.join(wanted)}")


def _every(client: BlockingClient) -> list[dict[str, Any]]:
    return client_users.user_rows(client, None)


def _mechanisms(
    client: BlockingClient, name: str, wanted: Sequence[Mechanism] | None
) -> Sequence[str]:
    """Returns the mechanisms to remove. Raises UserError if the user does not have them."""
    there = client_users.mechanisms_of(client, name)
    if not there:
        raise refused.no_user(name)
    if not set(there).issuperset(wanted or ()):
        raise UserError(
            f"{name} has no password to remove",
            f"the mechanisms of {name} are {', '.join(there)}",
            "trimaran users list shows them",
            exit_code=Exit.REFUSED,
        )
    return wanted or there


def _password(file: Path | None, variable: str | None) -> str:
    try:
        if file is not None:
            found = file.read_text().split("\n", 1)[0]
        elif variable is not None:
            found = os.environ.get(variable, "")
        elif sys.stdin.isatty():
            found = getpass.getpass("Password: ")
        else:
            found = sys.stdin.readline().rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise _no_password(str(error)) from error
    if not found:
        raise _no_password("it is empty")
    return found


def _no_password(why: str) -> UserError:
    return UserError(
        "no password was given",
        why,
        "write it to stdin, or name --password-file FILE or --password-variable NAME",
        exit_code=Exit.USAGE,
    )
