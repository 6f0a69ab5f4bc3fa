"""SCRAM settings from keys; its users and delegation tokens are in the cluster's metadata, not in keys of a listener.

Source: `ScramLoginModule` of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from trimaran.node.oauth.web import Web
from trimaran.node.security.logins import Logins
from trimaran.node.security.mechanism import NAME_AND_PASSWORD, Get, Mechanism
from trimaran.wire.security.sasl.exchange import ClientMechanism, Exchange
from trimaran.wire.security.sasl.scram import SCRAM_DIGESTS, TOKEN_EXTENSION, ScramExchange
from trimaran.wire.security.sasl.scram_client import ScramCredentials

SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def _exchanges(mechanism: Mechanism, get: Get, logins: Logins, _web: Web) -> Callable[[], Exchange]:
    key = mechanism.jaas_key
    # The key has the node's own credentials as a client; they are checked early, when the listener opens.
    if get(key):
        mechanism.options(get(key), key, NAME_AND_PASSWORD)
    return partial(ScramExchange, mechanism.name, logins.find_account)


def _client(mechanism: Mechanism, get: Get, key: str, _web: Web) -> ClientMechanism:
    username, password, options = mechanism.name_and_password(get(key), key)
    by_token = options.get(TOKEN_EXTENSION, "").lower() == "true"
    return ScramCredentials(mechanism.name, username, password, by_token)


SCRAM = tuple(Mechanism(name, SCRAM_MODULE, _exchanges, _client) for name in SCRAM_DIGESTS)
