"""Names of entities as znode names: percent-encoded, `<default>` for the default entity.

Source: Kafka's `Sanitizer` (URL encoding with %20 for a space and %2A for `*`) and `ZooKeeperInternals.DEFAULT_STRING`.
Left out: the JMX quoting of the same class.
"""

from __future__ import annotations

from urllib.parse import quote, unquote_plus

DEFAULT_ENTITY = "<default>"
# java.net.URLEncoder leaves letters, digits and these alone; `quote` would leave `~` too, so it is put back below.
_KEPT = ".-_"


def sanitize(name: str) -> str:
    """The znode name of a user, client or ip."""
    return quote(name, safe=_KEPT).replace("~", "%7E")


def desanitize(name: str) -> str:
    """The inverse of `sanitize`; a plus is a space, as for java.net.URLDecoder."""
    return unquote_plus(name)


def config_entity(resource_name: str) -> str:
    """The znode name of a config resource: KRaft's empty name is ZooKeeper's `<default>`."""
    return resource_name or DEFAULT_ENTITY
