"""All SASL mechanisms: a row each. Keys of listeners, messages and the page of configs are made from it."""

from __future__ import annotations

from trimaran.node.security.oauthbearer import OAUTHBEARER
from trimaran.node.security.plain import PLAIN
from trimaran.node.security.scram import SCRAM

MECHANISMS = {mechanism.name: mechanism for mechanism in (PLAIN, *SCRAM, OAUTHBEARER)}
