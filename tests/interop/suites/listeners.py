"""Brokers with a listener for each protocol: plaintext, TLS, logins."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.certificates import Certificates
from tests.interop.secured_controllers import pkcs8
from trimaran.node.security.plain import PLAIN_MODULE
from trimaran.node.security.scram import SCRAM_MODULE

HOST = "127.0.0.1"
# Brokers are anonymous to each other, on B, as are clients that do not log in; the cluster's first ACL would exclude
# them. Controllers authorize forwarded requests by their original principals.
OF_ALL = {"super.users": "User:ANONYMOUS;User:admin"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(frozen=True)
class Listeners:
    """Listeners, with `protocols` by name; a broker's port is the listener's prefix followed by the broker's id."""

    protocols: Mapping[str, str]
    prefixes: Mapping[str, int]

    def port(self, name: str, broker: int) -> int:
        return int(f"{self.prefixes[name]}{broker}")

    def settings(self, folder: Path, users: Mapping[str, str]) -> dict[str, object]:
        """Returns the brokers' properties; writes keys into `folder`. `users` has PLAIN passwords by name."""
        names = [f"{name}://{HOST}:{prefix}{{id}}" for name, prefix in self.prefixes.items()]
        protocols = {"CONTROLLER": "PLAINTEXT", "B": "PLAINTEXT", **self.protocols}
        found: dict[str, object] = {
            "listeners": ",".join(["B://{address}", *names]),
            "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in protocols.items()),
            **_keys(folder),
        }
        known = " ".join(f'user_{name}="{password}"' for name, password in users.items())
        logins = [name for name, protocol in self.protocols.items() if "SASL" in protocol]
        if logins:
            found["sasl.enabled.mechanisms"] = ",".join(MECHANISMS)
        for listener in logins:
            for mechanism in MECHANISMS:
                module = f"{PLAIN_MODULE} required {known};"
                if mechanism != "PLAIN":
                    module = f"{SCRAM_MODULE} required;"
                key = f"listener.name.{listener}.{mechanism}.sasl.jaas.config".lower()
                found[key] = module
        return found


def _keys(folder: Path) -> dict[str, object]:
    """Writes `ca.crt`, the brokers' `server.pem`, and a client's `client.key` and `client.crt`."""
    certificates = Certificates()
    key, chain = certificates.server
    (folder / "server.pem").write_text(pkcs8(key) + chain)
    (folder / "ca.crt").write_text(certificates.ca)
    key, chain = certificates.client
    (folder / "client.key").write_text(key)
    (folder / "client.crt").write_text(chain)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": folder / "server.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": folder / "ca.crt",
    }


def free(protocols: Mapping[str, str], brokers: Iterable[int]) -> Listeners:
    """Returns listeners with unused ports, below the system's ephemeral range."""
    with contextlib.ExitStack() as taken:
        return Listeners(protocols, {name: _prefix(taken, brokers) for name in protocols})


def _prefix(taken: contextlib.ExitStack, brokers: Iterable[int]) -> int:
    for prefix in random.sample(range(1100, 3200), 100):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for broker in brokers:
                stack.enter_context(socket.socket()).bind((HOST, prefix * 10 + broker))
            taken.push(stack.pop_all())
            return prefix
    raise AssertionError("no free ports below 32000")
