"""Keys for requests that the mirror accepts from old tools, which administer a cluster by writing to ZooKeeper."""

from __future__ import annotations

from trimaran.node.config.config_def import ConfigKey

# The values of `trimaran.zkcompat.legacy.requests.admin_requests.RequestKind`.
KINDS = (
    "reassignment",
    "election",
    "deletion",
    "topic",
    "partitions",
    "config",
    "quota",
    "acl",
    "scram",
)
# A reference in a password is resolved only if the node's file allows it.
_DEFAULT = [kind for kind in KINDS if kind != "scram"]


def _known(kinds: list[str]) -> str | None:
    unknown = [kind for kind in kinds if kind not in KINDS]
    return f"{', '.join(unknown)} is none of {', '.join(KINDS)}" if unknown else None


LEGACY_ADMIN = (
    ConfigKey(
        "trimaran.zk.legacy.admin.enable",
        "boolean",
        False,
        "Whether the mirror obeys tools that administer the cluster by writing to ZooKeeper.",
    ),
    ConfigKey(
        "trimaran.zk.legacy.admin.kinds",
        "list",
        _DEFAULT,
        "The kinds of requests that tools may make by writing to ZooKeeper, if the mirror obeys them.",
        _known,
    ),
)
