"""A broker with SASL logins, which permit requests for delegation tokens; and these requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.broker.handlers.broker_client import BrokerClient
from tests.cluster.in_process import cluster
from trimaran.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from trimaran.wire.security.listener import PLAINTEXT, ClientSecurity
from trimaran.wire.security.sasl.plain import PlainCredentials
from trimaran.wire.transport.client.node_connection import open_node_connection

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SECRET = {"delegation_token_secret_key": "k"}
CREATION = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
USERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,CLIENTS://127.0.0.1:0",
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT"
    ),
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.clients.plain.sasl.jaas.config": (
        f'{MODULE} required user_alice="secret" user_bob="secret";'
    ),
}


@asynccontextmanager
async def asked_by(path: Path, user: str | None, **settings: str) -> AsyncIterator[BrokerClient]:
    """Sends a request as that user, or unauthenticated in plain text."""
    async with cluster(path, brokers=0, **(SECRET | settings)) as running:
        broker = await running.start_broker(11, **USERS)
        async with connected_as(broker, user) as connection:
            yield BrokerClient(running, broker, connection)


@asynccontextmanager
async def connected_as(broker: Any, user: str | None) -> AsyncIterator[Any]:
    address = broker.addresses["CLIENTS" if user else "PLAINTEXT"]
    security = ClientSecurity(sasl=PlainCredentials(user, "secret")) if user else PLAINTEXT
    async with open_node_connection(*address, security=security) as connection:
        yield connection


async def token_of(one: BrokerClient) -> Any:
    """Creates a token, and returns it once the broker has applied it."""
    token = await one.call(CREATION)
    assert token.error_code == 0
    await one.seen(lambda image: token.token_id in image.tokens)
    return token
