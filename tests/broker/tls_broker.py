"""A broker with TLS for clients and plain text for administrators."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

from tests.certificates import Certificates
from tests.cluster.in_process import cluster, connected_to


@asynccontextmanager
async def open_tls_broker(path: Path, protocol: str, **keys: str):
    """Opens a cluster; yields it, the broker, a connection in plain text, and the certificates that the broker began
    with. `protocol`, of the listener CLIENTS, is SSL or SASL_SSL.
    """
    certificates = Certificates()
    (path / "node.pem").write_text("".join(certificates.server))
    listeners = {
        "listeners": "PLAINTEXT://127.0.0.1:0,CLIENTS://127.0.0.1:0",
        "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CLIENTS:{protocol}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(path / "node.pem"),
    }
    async with cluster(path, brokers=0) as running:
        broker = await running.start_broker(11, **listeners, **keys)
        async with connected_to(broker) as connection:
            yield running, broker, connection, certificates
