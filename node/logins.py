"""What the logins of clients are held against on this node; each listener with SASL asks it.

Left out: the mechanisms (`wire.security`), and which of them a listener offers (`node.config.sasl`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from wire.security.scram import ITERATIONS_MIN, FindAccount, ScramAccount, ScramCredential


def nobody(_mechanism: str, _name: str, _by_token: bool) -> ScramAccount:
    """Of a node that knows no users: every proof is wrong."""
    secret = os.urandom(32)
    return ScramAccount(ScramCredential(secret, secret, secret, ITERATIONS_MIN), None)


@dataclass(frozen=True, slots=True)
class Logins:
    """`find_account`: users and delegation tokens of SCRAM."""

    find_account: FindAccount = nobody


NOBODY = Logins()
