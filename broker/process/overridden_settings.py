"""Settings of a broker's file that the cluster has set otherwise: the log names them at the start.

Most often min.insync.replicas: with eligible leader replicas the cluster has one from its first moment, the
controllers' (KIP-966).
"""

from __future__ import annotations

from collections.abc import Iterator

from trimaran.node.config.server import ServerConfig
from trimaran.node.config.server_keys import SERVER_CONFIGS
from trimaran.quorum.metadata.image import BROKER_RESOURCE, ConfigsImage


def overridden(config: ServerConfig, configs: ConfigsImage) -> Iterator[str]:
    """A line for each."""
    own = configs.of(BROKER_RESOURCE, str(config.node_id))
    for name, text in sorted(configs.of(BROKER_RESOURCE, "").update(own).items()):
        key = SERVER_CONFIGS.get(name)
        if key is None or name not in config.explicit:
            continue
        if key.parse_stored(text) == config.explicit[name]:
            continue
        resource = f"broker/{config.node_id}" if name in own else "broker"
        value = "another value" if key.sensitive else text
        yield (
            f"{config.origins.get(name, name)}: {name} is not used here, as {value} was set for the running"
            f" {'broker' if name in own else 'cluster'} (trimaran configs get {resource} {name})"
        )
