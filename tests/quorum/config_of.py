"""Configurations for tests, from a few keys."""

from __future__ import annotations

from typing import NamedTuple

from trimaran.node.config.server import ServerConfig, parse


class Given(NamedTuple):
    value: str
    origin: str


CONTROLLER = {
    "process.roles": "controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "listeners": "CONTROLLER://127.0.0.1:0",
    "controller.quorum.voters": "1@127.0.0.1:9093",
}


def config_of(**changes: object) -> ServerConfig:
    """Returns a controller's configuration; underscores in names stand for dots."""
    values = CONTROLLER | {key.replace("_", "."): str(value) for key, value in changes.items()}
    return parse(
        {
            key: Given(value, f"test.properties:{n}")
            for n, (key, value) in enumerate(values.items(), 1)
        }
    )
