"""`users list|add|remove`: users that may log in by SCRAM. Passwords come from a prompt, a file or the environment,
never from an argument, which is visible in the list of processes.
"""

from __future__ import annotations

import getpass
import os
import secrets
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from trimaran.cli.connect import BROKERS, Brokers, DryRun
from trimaran.cli.output import Format, say, show_rows
from trimaran.errors import refused
from trimaran.errors.user_error import Exit, UserError
from trimaran.wire import errors
from trimaran.wire.client import response_checks
from trimaran.wire.messages import alter_user_scram_credentials, describe_user_scram_credentials
from trimaran.wire.security.sasl import scram

Mechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
Mechanisms = Annotated[list[Mechanism] | None, Parameter(name=["-m", "--mechanism"])]
_BOTH: tuple[Mechanism, ...] = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_SALT_BYTES = 24
# Twice the minimum of RFC 7677: a login costs the client a few milliseconds.
_ITERATIONS = 8192


def list_users(
    names: Annotated[list[str] | None, Parameter(negative=())] = None,
    /,
    *,
    brokers: Brokers = BROKERS,
    output: Format = "table",
) -> int:
    """Lists SCRAM users with their mechanisms. Passwords and keys are not shown.

    Args:
        names: Users to list; by default all.
    """
    wanted = (
        [describe_user_scram_credentials.UserName(name=name) for name in names] if names else None
    )
    with brokers.connected() as client:
        response = client.call(
            None, describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=wanted)
        )
        refused.check(response.error_code, response.error_message)
        for result in response.results:
            refused.check(result.error_code, result.error_message)
    rows = [
        {
            "user": result.user,
            "mechanism": _BOTH[info.mechanism - 1],
            "iterations": info.iterations,
        }
        for result in sorted(response.results, key=lambda one: str(one.user))
        for info in result.credential_infos
    ]
    show_rows(rows, output, columns=["user", "mechanism", "iterations"])
    return Exit.OK


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
    if dry_run:
        changes = {
            _BOTH.index(mechanism_name) + 1 for mechanism_name in mechanism or _BOTH
        } & _numbers(brokers, name)
        verb = "change the password of" if changes else "add"
        say(f"would {verb} {name}, with {', '.join(mechanism or _BOTH)}; nothing was changed")
        return
    upsertions = []
    for mechanism_name in mechanism or _BOTH:
        salt = secrets.token_bytes(_SALT_BYTES)
        upsertions.append(
            alter_user_scram_credentials.ScramCredentialUpsertion(
                name=name,
                mechanism=_BOTH.index(mechanism_name) + 1,
                iterations=iterations,
                salt=salt,
                salted_password=scram.salted_password(
                    scram.MECHANISMS[mechanism_name], password, salt, iterations
                ),
            )
        )
    _alter(brokers, [("upsertions", upsertion) for upsertion in upsertions])
    say(f"{name} can log in with {', '.join(mechanism or _BOTH)}")


def remove(
    name: str,
    /,
    *,
    mechanism: Mechanisms = None,
    dry_run: DryRun = False,
    brokers: Brokers = BROKERS,
) -> None:
    """Removes a SCRAM user. Existing sessions last until they end (see connections.max.reauth.ms).

    Args:
        name: The user name.
        mechanism: Only the password of this mechanism; by default all. May be repeated.
    """
    there = _numbers(brokers, name)
    numbers = [_BOTH.index(mechanism_name) + 1 for mechanism_name in mechanism or ()] or sorted(
        there
    )
    if not there.issuperset(numbers) or not there:
        raise UserError(
            f"there is no user {name}" if not there else f"{name} has no password to remove",
            "the cluster has no password of that name"
            if not there
            else f"the mechanisms of {name} are {', '.join(_BOTH[item - 1] for item in sorted(there))}",
            "trimaran users list shows them",
            exit_code=Exit.REFUSED,
        )
    named = ", ".join(_BOTH[number - 1] for number in numbers)
    if dry_run:
        say(f"would remove {name} with {named}; nothing was changed")
        return
    deletions = [
        alter_user_scram_credentials.ScramCredentialDeletion(name=name, mechanism=number)
        for number in numbers
    ]
    _alter(brokers, [("deletions", deletion) for deletion in deletions])
    say(f"{name} can no longer log in with {named}")


def _numbers(brokers: Brokers, name: str) -> set[int]:
    """Returns the mechanisms with which a user may log in; none if there is no such user."""
    request = describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
        users=[describe_user_scram_credentials.UserName(name=name)]
    )
    with brokers.connected() as client:
        response = client.call(None, request)
        refused.check(response.error_code, response.error_message)
    found = response_checks.single_item(response.results, "user")
    if found.error_code == errors.ErrorCode.RESOURCE_NOT_FOUND:
        return set()
    refused.check(found.error_code, found.error_message)
    return {info.mechanism for info in found.credential_infos}


def _alter(brokers: Brokers, changes: Iterable[tuple[str, Any]]) -> None:
    """Sends one request for each of `deletions` or `upsertions`, since a request may alter a user only once."""
    with brokers.connected() as client:
        for kind, change in changes:
            fields = {"deletions": [], "upsertions": [], kind: [change]}
            request = alter_user_scram_credentials.AlterUserScramCredentialsRequest(**fields)
            result = response_checks.single_item(client.call(None, request).results, "user")
            refused.check(result.error_code, result.error_message)


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
