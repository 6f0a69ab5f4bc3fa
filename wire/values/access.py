"""A registry with the rights to read it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field

from trimaran.wire.values.framing import IdKind
from trimaran.wire.values.http_get import REGISTRY_SECONDS_MAX, HttpServer
from trimaran.wire.values.registry import SchemaRegistry


@dataclass(frozen=True)
class RegistryAccess:
    """A registry and the rights to read it; executors of Spark make their clients of it. `ca` is a file that they have,
    too.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca: str | None = None
    ids: IdKind | None = None

    def client(self, seconds: float | None = None) -> SchemaRegistry:
        """Returns a client; it connects with each request, which may take `seconds`, by default those of a query."""
        tls = ssl.create_default_context(cafile=self.ca) if self.ca else None
        limit = REGISTRY_SECONDS_MAX if seconds is None else seconds
        server = HttpServer(self.url, self.user, self.password, self.token, tls, limit)
        return SchemaRegistry(server, id_kind=self.ids)
