"""The token of the control. Every request has it, so that no other program, and no page in a browser, breaks a
cluster.
"""

from __future__ import annotations

import secrets

from trimaran.console.guards import is_of_this_machine
from trimaran.errors.user_error import Exit, UserError

TOKEN_VARIABLE = "TRIMARAN_CONTROL_TOKEN"
# A random token of sixteen characters has at least 60 bits, too many to be guessed over a network.
TOKEN_CHARACTERS_MIN = 16


def checked_token(host: str, given: str) -> str:
    """Returns the token: the given one, or a new one if only this machine can connect to `host`.

    Raises:
        UserError: other machines can connect and no token was given, or it is too short or not ASCII.
    """
    if not given:
        if not is_of_this_machine(host):
            raise UserError(
                f"the control would be open to all clients on {host}",
                "other machines can reach that address, and no token was given",
                f"set {TOKEN_VARIABLE} to a token that the tests know, or listen on 127.0.0.1",
                exit_code=Exit.USAGE,
            )
        return secrets.token_urlsafe(24)
    if len(given) < TOKEN_CHARACTERS_MIN or not given.isascii() or not given.isprintable():
        raise UserError(
            f"the token in {TOKEN_VARIABLE} is unusable",
            f"it has {len(given)} characters; {TOKEN_CHARACTERS_MIN} or more of ASCII are needed",
            "use for example the output of: openssl rand -hex 16",
            exit_code=Exit.USAGE,
        )
    return given
