"""Users that log in by SCRAM, nodes that log in to each other by SCRAM or tokens, and delegation tokens, on a real
cluster.
"""

import base64
import json
from contextlib import asynccontextmanager

import pytest
import trio

from tests.broker.handlers.tokens import CREATION
from tests.cluster.in_process import cluster
from tests.node.oauth.provider import (
    AUDIENCE,
    ISSUER,
    ec_key,
    granting,
    key_set,
    pem,
    provider,
)
from tests.node.oauth.provider import token as bearer_token
from tests.quorum.config_of import Given
from trimaran.broker.process.composition import compose
from trimaran.node.config.config_def import ConfigError
from trimaran.node.security.listener_security import client_security
from trimaran.quorum.formatting.scram import scram_record
from trimaran.wire.client.errors import AuthenticationRefused
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from trimaran.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from trimaran.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from trimaran.wire.messages.metadata import MetadataRequest
from trimaran.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from trimaran.wire.security.listener import ClientSecurity
from trimaran.wire.security.sasl.scram import salted_password
from trimaran.wire.security.sasl.scram_client import ScramCredentials
from trimaran.wire.transport.client.node_connection import open_node_connection

SECONDS = 60
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OWN = f'{MODULE} required username="node" password="of-nodes";'
# All nodes and clients log in by SCRAM.
SETTINGS = {
    "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "sasl.mechanism.controller.protocol": "SCRAM-SHA-256",
    "listener.name.controller.scram-sha-256.sasl.jaas.config": OWN,
    "listener.name.plaintext.scram-sha-512.sasl.jaas.config": OWN,
    "delegation.token.secret.key": "k",
}
USERS = [scram_record(f"SCRAM-SHA-{bits}=[name=node,password=of-nodes]") for bits in (256, 512)] + [
    scram_record("SCRAM-SHA-512=[name=alice,password=secret]")
]


@asynccontextmanager
async def as_user(broker, name, password, mechanism="SCRAM-SHA-512", **options):
    security = ClientSecurity(sasl=ScramCredentials(mechanism, name, password, **options))
    address = broker.addresses["PLAINTEXT"]
    async with open_node_connection(*address, security=security) as connection:
        yield connection


async def ask(connection, request):
    return await connection.call(request, timeout=SECONDS)


async def assert_refused(broker, *credentials, **options):
    with pytest.raises(AuthenticationRefused, match="invalid credentials"):
        async with as_user(broker, *credentials, **options):
            pass


async def known(running, predicate):
    with trio.fail_after(SECONDS):
        await running.seen(predicate)


async def test_nodes_and_users_use_formatted_credentials(tmp_path):
    """Three controllers form a quorum, also after all of them were stopped and restarted."""
    async with cluster(
        tmp_path, controllers=3, brokers=0, users=USERS, **_underscored(SETTINGS)
    ) as running:
        broker = await running.start_broker(11)
        async with as_user(broker, "alice", "secret") as connection:
            response = await ask(connection, MetadataRequest(topics=[]))
            assert [broker.node_id for broker in response.brokers] == [11]
        await assert_refused(broker, "alice", "wrong")
        await assert_refused(broker, "nobody", "secret")
        for node_id in (1, 2, 3):
            await running.stop(node_id)
        await running.restart_controllers()
        await running.active()


async def test_users_and_passwords_change_while_brokers_run(tmp_path):
    async with cluster(tmp_path, brokers=0, users=USERS, **_underscored(SETTINGS)) as running:
        broker = await running.start_broker(11)
        salt = b"0123456789"
        salted = salted_password("sha256", "new", salt, 5000)
        upsertion = ScramCredentialUpsertion(
            name="bob", mechanism=1, iterations=5000, salt=salt, salted_password=salted
        )
        deletion = ScramCredentialDeletion(name="alice", mechanism=2)
        request = AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[upsertion])
        async with as_user(broker, "alice", "secret") as connection:
            response = await ask(connection, request)
            assert [result.error_code for result in response.results] == [0, 0]
            await known(running, lambda image: ("bob", 1) in image.scram)
            await ask(connection, MetadataRequest(topics=[]))  # an existing login stays valid
        async with as_user(broker, "bob", "new", "SCRAM-SHA-256"):
            pass
        await assert_refused(broker, "bob", "new", "SCRAM-SHA-512")
        await assert_refused(broker, "alice", "secret")


async def test_token_logs_in_owner_without_further_tokens(tmp_path):
    async with cluster(tmp_path, brokers=0, users=USERS, **_underscored(SETTINGS)) as running:
        broker = await running.start_broker(11)
        async with as_user(broker, "alice", "secret") as connection:
            token = await ask(connection, CREATION)
            assert token.error_code == 0
            await known(running, lambda image: token.token_id in image.tokens)
            password = base64.b64encode(token.hmac).decode()
            credentials = (token.token_id, password)
            async with as_user(broker, *credentials, by_token=True) as by_token:
                await ask(by_token, MetadataRequest(topics=[]))
                for request in (
                    CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1),
                    RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=1000),
                    ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1),
                ):
                    response = await ask(by_token, request)
                    assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            await assert_refused(broker, *credentials)
            await assert_refused(broker, "alice", "secret", by_token=True)
            expiry = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1)
            assert (await ask(connection, expiry)).error_code == 0
            await known(running, lambda image: token.token_id not in image.tokens)
            await assert_refused(broker, *credentials, by_token=True)


JWT_BEARER = "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"
BEARERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,CLIENTS://127.0.0.1:0",
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT"
    ),
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.expected.issuer": ISSUER,
    "sasl.oauthbearer.expected.audience": AUDIENCE,
}


async def test_clients_get_tokens_and_brokers_check_them(tmp_path):
    with provider() as idp:
        idp.answers["/jwks"] = key_set()
        grant = {"access_token": bearer_token(), "expires_in": 600}
        idp.answers["/token"] = json.dumps(grant).encode()
        settings = {**BEARERS, "sasl.oauthbearer.jwks.endpoint.url": f"{idp.url}/jwks"}
        async with cluster(tmp_path, brokers=0) as running:
            broker = await running.start_broker(11, **settings)
            security = bearer_client(f"{idp.url}/token")
            for _ in range(2):
                async with open_node_connection(
                    *broker.addresses["CLIENTS"], security=security
                ) as connection:
                    await ask(connection, MetadataRequest(topics=[]))
            assert [path for path, _, _ in idp.asked] == ["/jwks", "/token"]
            _, headers, body = idp.asked[1]
            assert body == b"grant_type=client_credentials&scope=kafka"
            assert headers["Authorization"] == "Basic " + base64.b64encode(b"me:mine").decode()
            grant["access_token"] = bearer_token(aud="another")
            idp.answers["/token"] = json.dumps(grant).encode()
            with pytest.raises(AuthenticationRefused, match="invalid_token"):
                async with open_node_connection(
                    *broker.addresses["CLIENTS"], security=bearer_client(f"{idp.url}/token")
                ):
                    pass


async def test_nodes_and_clients_log_in_by_assertions(tmp_path):
    """The provider verifies each assertion, and gives a token for its subject."""
    (tmp_path / "key.pem").write_text(pem(ec_key()))
    with provider() as idp:
        idp.answers["/jwks"] = key_set()
        idp.judges["/token"] = granting(idp, ec_key(), "ES256")
        own = {
            "sasl.oauthbearer.token.endpoint.url": f"{idp.url}/token",
            "sasl.oauthbearer.jwt.retriever.class": JWT_BEARER,
            "sasl.oauthbearer.assertion.algorithm": "ES256",
            "sasl.oauthbearer.assertion.private.key.file": f"{tmp_path}/key.pem",
            "sasl.oauthbearer.assertion.claim.iss": "client-of-ours",
            "sasl.oauthbearer.assertion.claim.aud": f"{idp.url}/token",
            "sasl.oauthbearer.assertion.claim.sub": "node",
        }
        settings = {
            **BEARERS,
            **own,
            "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
            "sasl.mechanism.controller.protocol": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": f"{idp.url}/jwks",
        }
        listeners = settings.pop("listeners")
        async with cluster(tmp_path, brokers=0, **_underscored(settings)) as running:
            broker = await running.start_broker(11, listeners=listeners)
            assert b"grant-type%3Ajwt-bearer" in idp.asked[-1][2]
            client = own | {"sasl.oauthbearer.assertion.claim.sub": "alice"}
            address, count = broker.addresses["PLAINTEXT"], len(idp.asked)
            security = bearer_client(**client)
            for _ in range(2):
                async with open_node_connection(*address, security=security) as connection:
                    response = await ask(connection, MetadataRequest(topics=[]))
                    assert [found.node_id for found in response.brokers] == [11]
            assert len(idp.asked) == count + 1
            (tmp_path / "key.pem").write_text(pem(ec_key.__wrapped__()))
            with pytest.raises(AuthenticationRefused, match=r"status 400 \(invalid_grant\)"):
                async with open_node_connection(*address, security=bearer_client(**client)):
                    pass


def bearer_client(url="", **own):
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.client.credentials.client.id": "me",
        "sasl.oauthbearer.client.credentials.client.secret": "mine",
        "sasl.oauthbearer.scope": "kafka",
        **own,
    }
    return client_security({key: Given(value, "test") for key, value in settings.items()})


async def test_broker_without_keys_does_not_start(tmp_path):
    with provider() as idp:
        settings = {**BEARERS, "sasl.oauthbearer.jwks.endpoint.url": f"{idp.url}/none"}
        async with cluster(tmp_path, brokers=0) as running:
            with pytest.raises(ConfigError, match="status 404"):
                compose(running.config(11, **{"process.roles": "broker", **settings}), None)


def _underscored(settings):
    return {key.replace(".", "_"): value for key, value in settings.items()}
