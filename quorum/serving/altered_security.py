"""Certificates and users that are altered while a node runs. New connections use the new ones; open connections are not
affected. Keystores, truststores and revocation lists are also read again when their files change.

Source: `DynamicSecurityConfigs`, `SslFactory.reconfigure`, `SaslChannelBuilder` of Kafka, KIP-226. Setting a location
to its present value reads the file again (KAFKA-14136). Not implemented: `ssl.allow.dn.changes` and
`ssl.allow.san.changes`; a new certificate may have any name.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence

import trio

from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.server import LISTENER_PREFIX, ServerConfig
from trimaran.node.runtime.threads import run_blocking
from trimaran.node.security.listener_security import controller_security, listener_security
from trimaran.node.security.logins import Logins
from trimaran.quorum import events
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import BROKER_RESOURCE, ConfigsImage, MetadataImage
from trimaran.quorum.metadata.loader import Manifest
from trimaran.wire.security.listener import PLAINTEXT, ClientSecurity, ListenerSecurity
from trimaran.wire.transport.scheduling.events import AutoResetEvent
from trimaran.wire.transport.server.server import Listener

log = logging.getLogger(__name__)

Make = Callable[[ServerConfig], ClientSecurity]


_FILES = ("ssl.keystore.location", "ssl.truststore.location", "trimaran.ssl.crl.location")


class AlteredSecurity:
    """A `Publisher` that acts when a client alters `listener.name.…` of this node; files are read in a thread."""

    def __init__(
        self,
        config: ServerConfig,
        listeners: Sequence[Listener],
        clients: Sequence[tuple[ClientSecurity, Make]],
        logins: Logins | None = None,
    ) -> None:
        """Creates the publisher. `clients`: the security of this node's own connections, each with the function that
        builds it again.
        """
        self._config = config
        self._here = (BROKER_RESOURCE, str(config.node_id))
        self._logins = logins or Logins()
        self._listeners = listeners
        self._clients = clients
        # The configuration with all alterations applied so far.
        self._in_use = config
        self._signatures = self._file_signatures()
        self._changed: set[str] = set()  # keys altered since `_in_use`
        self._configs = ConfigsImage()
        self._wanted = AutoResetEvent()
        self._one_at_a_time = trio.Lock()

    def publish(self, delta: MetadataDelta, image: MetadataImage, _manifest: Manifest) -> None:
        changes = delta.configs.changed.get(self._here)
        if not changes:
            return
        changed = {name for name in changes if name.startswith(LISTENER_PREFIX)}
        if changed:
            self._changed |= changed
            self._configs = image.configs
            self._wanted.set()

    async def run(self) -> None:
        """Applies alterations and watches the listeners' files, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_files)
            while True:
                await self._wanted.wait()
                await self.apply_alterations()

    async def apply_alterations(self) -> None:
        """Applies the newest published configs."""
        async with self._one_at_a_time:
            changed, self._changed = self._changed, set()
            if not changed:
                return
            try:
                config = altered(self._config, self._configs)
                concerned = [
                    listener
                    for listener in self._listeners
                    if any(name.startswith(_prefix(listener.name)) for name in changed)
                ]
                await self._renew(config, concerned)
                self._in_use = config
                self._signatures = self._file_signatures()
            except ConfigError as error:
                events.SECURITY_CONFIG_INVALID.log(log, error=error)

    async def _renew(self, config: ServerConfig, listeners: Sequence[Listener]) -> None:
        """Replaces all security settings, or none if one is unusable. Raises ConfigError."""
        secured, clients = await run_blocking(self._read, config, listeners)
        for listener, security in secured:
            listener.security = security
            events.SECURITY_ALTERED.log(log, listener=listener.name)
        for client, new in clients:
            client.tls, client.sasl = new.tls, new.sasl

    def _read(
        self, config: ServerConfig, listeners: Sequence[Listener]
    ) -> tuple[
        list[tuple[Listener, ListenerSecurity]], list[tuple[ClientSecurity, ClientSecurity]]
    ]:
        """Reads the new security of listeners and clients. Blocks, so it is called in a thread. Raises ConfigError."""
        secured = [
            (listener, listener_security(config, listener.name, self._logins))
            for listener in listeners
        ]
        clients = [
            (client, make(config)) for client, make in self._clients if client is not PLAINTEXT
        ]
        return secured, clients

    async def _watch_files(self) -> None:
        """Reads changed files periodically."""
        seconds = self._config["trimaran.ssl.reload.interval.ms"] / 1000
        while seconds:
            await trio.sleep(seconds)
            await self.read_changed_files()

    async def read_changed_files(self) -> None:
        """Checks the files once. An unusable file changes nothing until it changes again."""
        async with self._one_at_a_time:
            before, self._signatures = self._signatures, self._file_signatures()
            if before == self._signatures:
                return
            try:
                await self._renew(self._in_use, self._listeners)
            except ConfigError as error:
                events.SECURITY_INVALID.log(log, error=error)

    def _file_signatures(self) -> dict[str, object]:
        """Returns the signature of each file that the listeners use: it changes when the file is written."""
        names = [listener.name for listener in self._listeners] + self._config[
            "controller.listener.names"
        ]
        paths = {
            self._in_use.of_listener(name, key) for name in dict.fromkeys(names) for key in _FILES
        }
        return {path: _signature(path) for path in paths if path}


def _signature(path: str) -> object:
    try:
        found = os.stat(path)
    except OSError as error:
        return error.errno
    return found.st_mtime_ns, found.st_size, found.st_ino


def altered(config: ServerConfig, configs: ConfigsImage) -> ServerConfig:
    """Returns the file's configuration with what `configs` set for listeners of this node. Raises ConfigError."""
    return with_listeners(config, configs.of(BROKER_RESOURCE, str(config.node_id)))


def with_listeners(config: ServerConfig, texts: Mapping[str, str]) -> ServerConfig:
    """Returns the file's configuration with other values of its `listener.name.…` keys. Raises ConfigError."""
    return config.with_listener_configs(
        {name: text for name, text in texts.items() if name.startswith(LISTENER_PREFIX)}
    )


def check_altered(
    config: ServerConfig, configs: ConfigsImage, changes: Mapping[str, str | None]
) -> None:
    """Checks the altered configs and reads the files that they name, so it is called in a thread.

    Raises ConfigError if a listener could not work with `changes` to this node's configs.
    """
    changed = {name for name in changes if name.startswith(LISTENER_PREFIX)}
    if not changed:
        return
    texts = {**configs.of(BROKER_RESOURCE, str(config.node_id)), **changes}
    after = with_listeners(config, {k: text for k, text in texts.items() if text is not None})
    for endpoint in (*config.broker_listeners, *config.controller_listeners):
        prefix = _prefix(endpoint.name)
        if any(name.startswith(prefix) for name in changed):
            listener_security(after, endpoint.name)
            changed = {name for name in changed if not name.startswith(prefix)}
    # The remaining keys configure connections to controllers.
    controllers = tuple(map(_prefix, config["controller.listener.names"]))
    if any(name.startswith(controllers) for name in changed):
        controller_security(after)
    if unknown := sorted(name for name in changed if not name.startswith(controllers)):
        raise ConfigError(
            unknown[0], "", "there is no such listener", fix="see the key `listeners`"
        )


def _prefix(listener: str) -> str:
    return f"{LISTENER_PREFIX}{listener.lower()}."
