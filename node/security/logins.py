"""The accounts and keys for checks of logins to this node, shared by all SASL listeners.

See `trimaran.wire.security` for the mechanisms, and `trimaran.node.security.sasl` for those that a listener offers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from trimaran.node.config.config_def import ConfigError
from trimaran.node.oauth.keys import KeySet, KeySetError, is_file
from trimaran.node.oauth.web import Web
from trimaran.wire.security.sasl.scram import (
    ITERATIONS_MIN,
    FindAccount,
    ScramAccount,
    ScramCredential,
)


def no_account(_mechanism: str, _name: str, _by_token: bool) -> ScramAccount:
    """Returns an account that accepts no proof, for a node without users."""
    secret = os.urandom(32)
    return ScramAccount(ScramCredential(secret, secret, secret, ITERATIONS_MIN), None)


@dataclass(frozen=True, slots=True)
class Logins:
    """The data for logins. `find_account`: users and delegation tokens of SCRAM. For OAUTHBEARER it caches the keys for
    validating tokens by their URL: they outlive the replacement of a listener.
    """

    find_account: FindAccount = no_account
    _key_sets: dict[str, KeySet] = field(default_factory=dict)

    def key_set(self, url: str, web: Web, refresh_seconds: float) -> KeySet:
        """Returns the keys at `url`, without reading them yet."""
        if url not in self._key_sets:
            self._key_sets[url] = KeySet(url, web, refresh_seconds=refresh_seconds)
        return self._key_sets[url]

    def load_keys(self, *, only_files: bool = False) -> None:
        """Reads all keys now, or those in files of this machine. Blocks.

        Raises:
            ConfigError: some keys cannot be read, so no client could log in with a token.
        """
        for url, keys in self._key_sets.items():
            if only_files and not is_file(url):
                continue
            try:
                keys.load()
            except KeySetError as error:
                key = "sasl.oauthbearer.jwks.endpoint.url"
                fix = "correct the address, or see why the identity provider does not answer"
                raise ConfigError(key, url, str(error), fix=fix) from error
