"""A registry with the credentials to read it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field

from trimaran.wire.values.framing import IdKind
from trimaran.wire.values.http_get import REGISTRY_SECONDS_MAX, HttpServer
from trimaran.wire.values.registry import SchemaRegistry


@dataclass(frozen=True)
class RegistryAccess:
    """A registry and the credentials to read it, sent to Spark's executors, which create clients from it. The file `ca`
    must exist on executors, too.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca: str | None = None
    ids: IdKind | None = None

    def client(self, seconds: float | None = None) -> SchemaRegistry:
        """Returns a client, which opens a connection for each request; a request may take `seconds`, by default
        REGISTRY_SECONDS_MAX.
        """
        tls = ssl.create_default_context(cafile=self.ca) if self.ca else None
        limit = REGISTRY_SECONDS_MAX if seconds is None else seconds
        server = HttpServer(self.url, self.user, self.password, self.token, tls, limit)
        return SchemaRegistry(server, id_kind=self.ids)
