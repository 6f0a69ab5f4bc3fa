"""Names of entities as znode names: percent-encoded, `<default>` for the default entity.

Source: Kafka's `Sanitizer` (URL encoding with %20 for a space and %2A for `*`) and `ZooKeeperInternals.DEFAULT_STRING`.
Not implemented: the JMX quoting of the same class.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote_plus

DEFAULT_ENTITY = "<default>"
# java.net.URLEncoder leaves letters, digits and these alone; `quote` would leave `~` too, so it is put back below.
_KEPT = ".-_"
# The characters that ZooKeeper's `PathUtils.validatePath` refuses. It checks UTF-16 units, so it refuses all characters
# outside of the basic plane.
_REFUSED = re.compile("[/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")


def sanitize(name: str) -> str:
    """Returns the znode name of a user, client or ip."""
    return quote(name, safe=_KEPT).replace("~", "%7E")


def desanitize(name: str) -> str:
    """Returns the inverse of `sanitize`; a plus is a space, as for java.net.URLDecoder."""
    return unquote_plus(name)


def is_znode_name(name: str) -> bool:
    """True for a valid znode name."""
    return name not in ("", ".", "..") and _REFUSED.search(name) is None


def config_entity(resource_name: str) -> str:
    """Returns the znode name of a config resource: KRaft's empty name is ZooKeeper's `<default>`."""
    return resource_name or DEFAULT_ENTITY
