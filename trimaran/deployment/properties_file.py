"""A properties file to begin with: the required keys of a node, and optional keys as comments. Text, no I/O."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from trimaran.errors.user_error import Exit, UserError
from trimaran.wire.identity import Address, NodeId

if TYPE_CHECKING:
    from trimaran.node.config.config_def import ConfigKey

_ROLES = ("broker", "controller")
_WIDTH = 110
_HEAD = """\
# A node of trimaran, or of Apache Kafka: both read this file.
# Check it: trimaran config check -c FILE. What a key means: trimaran config explain KEY.
# Format its directories once: trimaran storage format -t CLUSTER_ID -c FILE; the first controller with --standalone.
"""


def properties_file(
    roles: Sequence[str],
    node_id: NodeId,
    controllers: str,
    host: str,
    port: int,
    log_dirs: str,
    others: Iterable[ConfigKey],
) -> str:
    """Returns the file of a node in a dynamic quorum with plaintext listeners; `controllers` are HOST:PORT,….

    Raises:
        UserError: there is no such role, or the host of a controller is not in `controllers`.
    """
    if not roles or not set(roles) <= set(_ROLES):
        raise UserError(
            f"{','.join(roles)!r} are not the roles of a node",
            "a node is a controller, a broker or both",
            "write --roles controller, --roles broker or --roles broker,controller",
            exit_code=Exit.USAGE,
        )
    listeners = [f"PLAINTEXT://{Address(host, port)}"] if "broker" in roles else []
    if "controller" in roles:
        listeners.append(f"CONTROLLER://{_own(controllers, host)}")
    essential = {
        "process.roles": ",".join(roles),
        "node.id": str(node_id),
        "controller.quorum.bootstrap.servers": controllers,
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(listeners),
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": log_dirs,
    }
    told = "\n".join(f"{key}={value}" for key, value in essential.items())
    comments = "\n".join(_comment(key) for key in others if key.name not in essential)
    return f"{_HEAD}\n{told}\n\n# Defaults; take the # away to set one.\n\n{comments}"


def _own(controllers: str, host: str) -> str:
    found = next((part for part in controllers.split(",") if part.rpartition(":")[0] == host), None)
    if found is None:
        raise UserError(
            f"{host} is not among the controllers",
            f"--controllers names {controllers}",
            "add this controller there, or correct its own address: --host HOST",
            exit_code=Exit.USAGE,
        )
    return found


def _comment(key: ConfigKey) -> str:
    none = key.default is None
    said = f"{key.documentation} There is no default." if none else key.documentation
    doc = textwrap.fill(
        said, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )
    default = "" if none else key.default_text
    return f"{doc}\n#{key.name}={default}\n"
