"""All SASL mechanisms, one row each. The listener keys, messages and the page of configs are derived from it."""

from __future__ import annotations

from trimaran.node.security.kerberos import GSSAPI
from trimaran.node.security.oauthbearer import OAUTHBEARER
from trimaran.node.security.plain import PLAIN
from trimaran.node.security.scram import SCRAM

MECHANISMS = {mechanism.name: mechanism for mechanism in (PLAIN, *SCRAM, OAUTHBEARER, GSSAPI)}
