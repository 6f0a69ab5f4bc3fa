"""Keys of SASL GSSAPI, which is Kerberos, for listeners, for nodes as clients, and for commands.

Source: Kafka's `SaslConfigs`, `BrokerSecurityConfigs`.
"""

from __future__ import annotations

from collections.abc import Sequence

from trimaran.node.config.config_def import ConfigKey
from trimaran.wire.security.kerberos_names import DEFAULT, LocalNames

_AT_START = "mechanisms are made when a node starts"


def _local_rules(rules: Sequence[str]) -> str | None:
    try:
        LocalNames(rules, "")
    except ValueError as error:
        return str(error)
    return None


KERBEROS_CLIENT = (
    ConfigKey(
        "sasl.kerberos.service.name",
        "string",
        None,
        "First part of the Kerberos principals of nodes, for example kafka.",
        scope="per-broker",
        no_effect_while_running=_AT_START,
    ),
)
# Keys of a node; each may also be set for one listener.
KERBEROS = (
    *KERBEROS_CLIENT,
    ConfigKey(
        "sasl.kerberos.principal.to.local.rules",
        "list",
        [DEFAULT],
        "Rules that make names of Kerberos principals shorter, in Kafka's syntax: RULE:…,DEFAULT.",
        _local_rules,
        scope="per-broker",
        no_effect_while_running=_AT_START,
    ),
)
