"""Accounts and keys that the logins of clients are checked against on this node, by each listener with SASL.

See `trimaran.wire.security` for the mechanisms, and `trimaran.node.security.sasl` for those that a listener offers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from trimaran.node.config.config_def import ConfigError
from trimaran.node.oauth.keys import KeySet, KeySetError
from trimaran.node.oauth.web import Web
from trimaran.wire.security.sasl.scram import (
    ITERATIONS_MIN,
    FindAccount,
    ScramAccount,
    ScramCredential,
)


def nobody(_mechanism: str, _name: str, _by_token: bool) -> ScramAccount:
    """The account of a node without users: every proof is wrong."""
    secret = os.urandom(32)
    return ScramAccount(ScramCredential(secret, secret, secret, ITERATIONS_MIN), None)


@dataclass(frozen=True, slots=True)
class Logins:
    """`find_account`: users and delegation tokens of SCRAM. For OAUTHBEARER it keeps the keys that tokens are checked
    by, each under its URL: they outlive a change of a listener.
    """

    find_account: FindAccount = nobody
    _key_sets: dict[str, KeySet] = field(default_factory=dict)

    def key_set(self, url: str, web: Web, refresh_seconds: float) -> KeySet:
        """The keys at `url`; nothing is read yet."""
        if url not in self._key_sets:
            self._key_sets[url] = KeySet(url, web, refresh_seconds=refresh_seconds)
        return self._key_sets[url]

    def load_keys(self) -> None:
        """Reads all keys now. Blocks.

        Raises:
            ConfigError: some cannot be read; no client could log in with a token.
        """
        for url, keys in self._key_sets.items():
            try:
                keys.load()
            except KeySetError as error:
                key = "sasl.oauthbearer.jwks.endpoint.url"
                fix = "correct the address, or see why the identity provider does not answer"
                raise ConfigError(key, url, str(error), fix=fix) from error
