"""Credentials that tools write to ZooKeeper: the resulting requests, and a real controller that stores them."""

from collections import deque
from contextlib import asynccontextmanager

import pytest
from kazoo.security import make_digest_acl

from tests.cluster.in_process import cluster
from tests.cluster.nodes import CLUSTER_ID
from tests.zkcompat import build
from tests.zkcompat.legacy.rig import ALL, Admin, mirroring
from tests.zkcompat.legacy.takeover import in_step, killed_at, quorum_request
from tests.zkcompat.rig import connected
from trimaran.wire.client.errors import AuthenticationRefused
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
)
from trimaran.wire.records.security import UserScramCredentialRecord
from trimaran.wire.security.listener import ClientSecurity
from trimaran.wire.security.sasl.scram import credential_of
from trimaran.wire.security.sasl.scram_client import ScramCredentials
from trimaran.wire.transport.client.node_connection import open_node_connection
from trimaran.zkcompat.in_controller import HostController, OwnController
from trimaran.zkcompat.legacy.admin import LegacyAdmin
from trimaran.zkcompat.legacy.requests.admin_requests import RequestKind
from trimaran.zkcompat.legacy.requests.credentials import decide
from trimaran.zkcompat.sections.quotas import quotas_of
from trimaran.zkcompat.znodes.entity_config import EntityConfig
from trimaran.zkcompat.znodes.scram_credential import SCRAM_KEYS, parse_scram_text, scram_text

PATH = "/config/users/alice"
LOGINS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,LOGINS://127.0.0.1:0",
    "listener_security_protocol_map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,LOGINS:SASL_PLAINTEXT",
    "sasl_enabled_mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
}
NOTE = ("/config/changes/config_change_", b'{"version":2,"entity_path":"users/alice"}')
AUTH = (("digest", "mirror:secret"),)
OWN = [make_digest_acl("mirror", "secret", all=True)]
IMAGE = build.image_of(build.scram("alice"))
STORED = scram_text(build.scram("alice"))


def record(password, mechanism=1, iterations=4096):
    digest = {1: "sha256", 2: "sha512"}[mechanism]
    found = credential_of(digest, password, b"salt-of-alice", iterations)
    return UserScramCredentialRecord(
        name="alice",
        mechanism=mechanism,
        salt=found.salt,
        stored_key=found.stored_key,
        server_key=found.server_key,
        iterations=found.iterations,
    )


def texts(**passwords):
    """Returns credentials of these passwords, by mechanism."""
    mechanisms = {"sha256": 1, "sha512": 2}
    return {mechanisms[n]: scram_text(record(w, mechanisms[n])) for n, w in passwords.items()}


def znode(**passwords):
    """Returns a user's znode with credentials of these passwords."""
    found = {SCRAM_KEYS[mechanism]: text for mechanism, text in texts(**passwords).items()}
    return EntityConfig({**found, "consumer_byte_rate": "8"}).encode()


def test_differing_credentials_are_stored_or_removed():
    wanted = {"SCRAM-SHA-512": scram_text(record("new", 2))}
    request = decide(PATH, "alice", wanted, IMAGE, shown=True)
    removal, stored = [quorum_request.request for quorum_request in request.quorum_requests]
    assert [(deletion.name, deletion.mechanism) for deletion in removal.deletions] == [("alice", 1)]
    assert stored == record("new", 2)
    assert request.secrets == request.entities == [PATH]
    (quorum_request,) = decide(PATH, "alice", wanted, IMAGE, shown=False).quorum_requests
    assert quorum_request.request == stored


def test_credentials_of_image_need_no_request():
    assert decide(PATH, "alice", {"SCRAM-SHA-256": STORED}, IMAGE, shown=True) is None
    turned = ",".join(reversed(STORED.split(",")))
    assert decide(PATH, "alice", {"SCRAM-SHA-256": turned}, IMAGE, shown=True) is None
    assert decide(PATH, "alice", {}, IMAGE, shown=False) is None
    assert decide(PATH, "bob", {}, IMAGE, shown=True) is None


@pytest.mark.parametrize(
    "text",
    ["", "salt=x", "salt=,stored_key=,server_key=", STORED.replace("8192", "many"),
     STORED.replace("8192", "9" * 10), STORED.replace("8192", "-1"), STORED + ",more=1",
     STORED.replace("salt=", "salt=*"), STORED.replace("salt=", "salt=é"), "s" * 100_000,
     STORED.replace("salt=", "salt=" + "A" * 8000)],
)  # fmt: skip
def test_invalid_secret_is_refused_without_printing_it(text):
    request = decide(PATH, "alice", {"SCRAM-SHA-256": text}, IMAGE, shown=True)
    assert not request.quorum_requests
    (sentence,) = request.refused
    assert sentence.startswith("set SCRAM-SHA-256 of user alice: ")
    assert len(sentence) < 100
    assert not text or text not in sentence


def test_scram_text_is_parsed_to_record():
    assert parse_scram_text("alice", 1, STORED) == build.scram("alice")


def test_repeated_removal_is_no_refusal():
    (quorum_request,) = decide(PATH, "alice", {}, IMAGE, shown=True).quorum_requests

    def refusals(code):
        one = AlterUserScramCredentialsResult(user="alice", error_code=code, error_message="no")
        return quorum_request.refusals(AlterUserScramCredentialsResponse(results=[one]))

    assert refusals(ErrorCode.RESOURCE_NOT_FOUND) == []
    said = ["remove SCRAM-SHA-256 of user alice: UNACCEPTABLE_CREDENTIAL: no"]
    assert refusals(ErrorCode.UNACCEPTABLE_CREDENTIAL) == said


KINDS = ALL | {RequestKind.SCRAM}


def own(running):
    """Returns the channel to the controller that a mirror inside the only controller uses."""
    inside = running.controllers[1]

    def way(feed):
        controller = HostController(
            node_id=1,
            cluster_id=CLUSTER_ID,
            node=inside.node,
            loader=inside.loader,
            directory=inside.directory.path,
            quorum=inside.context.controller,
        )
        return OwnController(controller, feed)

    return way


@asynccontextmanager
async def storing(running, connect, forgets=False):
    """Runs a mirror like the one inside the only controller. If it `forgets`, it keeps only the newest image."""

    def companion(feed):
        if forgets:
            feed.history = deque(maxlen=1)
        return LegacyAdmin(own(running)(feed), KINDS)

    async with (
        mirroring(running, connect, companion=companion, auth=AUTH) as (feed, mirror),
        connected(connect, auth=AUTH) as hands,
    ):
        admin = Admin(running, feed, mirror, hands, connect)
        await in_step(feed, mirror)
        yield admin


def stored(image):
    return {mechanism: scram_text(value) for (_, mechanism), value in image.scram.items()}


def quotas(image):
    return quotas_of(image.quotas, (("user", "alice"),))


async def told(admin, data):
    await admin.write(PATH, data)
    await admin.note(*NOTE)


async def shows(admin, data):
    async def same():
        found = await admin.hands.read(PATH)
        return found is not None and found.data == data

    await admin.until_tree(same)


async def test_credential_follows_writes_of_tools(tmp_path, connect, caplog):
    async with cluster(tmp_path) as running, storing(running, connect) as admin:
        await told(admin, znode(sha256="first", sha512="other"))
        both = {1: scram_text(record("first")), 2: scram_text(record("other", 2))}
        await admin.until(lambda image: stored(image) == both)
        await admin.until(quotas)
        await shows(admin, znode(sha256="first", sha512="other"))
        acl, _ = await admin.hands._answer(admin.hands._client.get_acls_async(PATH))
        assert acl == OWN
        await told(admin, znode(sha256="second", sha512="other"))
        await admin.until(lambda image: stored(image)[1] == scram_text(record("second")))
        await admin.in_step()
        await told(admin, znode(sha512="other"))
        await admin.until(lambda image: stored(image) == {2: both[2]})
        await admin.in_step()

        weak = {"SCRAM-SHA-256": scram_text(record("weak", 1, 1)), "SCRAM-SHA-512": both[2]}
        await told(admin, EntityConfig(weak).encode())
        await shows(admin, EntityConfig({"SCRAM-SHA-512": both[2]}).encode())
        assert "SCRAM-SHA-256 of user alice: UNACCEPTABLE_CREDENTIAL: Too few" in caplog.text
        for text in (both[1], both[2]):
            assert text.partition(",")[2] not in caplog.text


async def may_log_in(broker, password, mechanism):
    security = ClientSecurity(sasl=ScramCredentials(mechanism, "alice", password))
    try:
        async with open_node_connection(*broker.addresses["LOGINS"], security=security):
            return True
    except AuthenticationRefused:
        return False


async def test_users_log_in_with_what_a_tool_wrote(tmp_path, connect):
    async with cluster(tmp_path, brokers=0) as running:
        broker = await running.start_broker(11, **LOGINS)
        async with storing(running, connect) as admin:

            async def written(**passwords):
                await told(admin, znode(**passwords))
                await running.seen(lambda image: stored(image) == texts(**passwords))
                await admin.in_step()

            assert not await may_log_in(broker, "first", "SCRAM-SHA-256")
            await written(sha256="first", sha512="other")
            assert await may_log_in(broker, "first", "SCRAM-SHA-256")
            assert await may_log_in(broker, "other", "SCRAM-SHA-512")
            assert not await may_log_in(broker, "other", "SCRAM-SHA-256")
            await written(sha256="second", sha512="other")
            assert await may_log_in(broker, "second", "SCRAM-SHA-256")
            assert not await may_log_in(broker, "first", "SCRAM-SHA-256")
            await written(sha512="other")
            assert not await may_log_in(broker, "second", "SCRAM-SHA-256")
            assert await may_log_in(broker, "other", "SCRAM-SHA-512")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    "request_name",
    ["UserScramCredentialRecord", "AlterUserScramCredentialsRequest", "AlterClientQuotasRequest"],
)
async def test_next_mirror_completes_request_of_killed_one(
    tmp_path, connect, request_name, after, caplog
):
    """One command sets a credential, removes one and changes a quota: three requests."""
    async with cluster(tmp_path) as running, connected(connect, auth=AUTH) as hands:
        tool = Admin(running, None, None, hands, connect)
        async with storing(running, connect) as admin:
            await told(admin, EntityConfig({"SCRAM-SHA-256": scram_text(record("old"))}).encode())
            await admin.until(stored)
            await admin.in_step()
        secured = {"inner": own(running), "kinds": KINDS, "auth": AUTH}
        killed = killed_at(running, connect, request_name, after=after, **secured)
        async with killed as (feed, mirror):
            await in_step(feed, mirror)
            await told(tool, znode(sha512="new"))
        async with storing(running, connect) as admin:
            new = {2: scram_text(record("new", 2))}
            await admin.until(lambda image: stored(image) == new)
            await admin.until(lambda image: quotas(image) == {"consumer_byte_rate": "8"})
            await shows(admin, znode(sha512="new"))
        assert "Refused" not in caplog.text


REVOKED = AlterUserScramCredentialsRequest(
    deletions=[ScramCredentialDeletion(name="alice", mechanism=1)], upsertions=[]
)


@pytest.mark.parametrize("forgets", [False, True])
async def test_credential_revoked_without_mirror_stays_revoked(tmp_path, connect, caplog, forgets):
    """A tool writes back what it had read, next to a new credential and a new quota."""
    async with cluster(tmp_path) as running:
        async with storing(running, connect) as admin:
            await told(admin, znode(sha256="revoked"))
            await admin.until(stored)
            await admin.until(quotas)
            await admin.in_step()
        await quorum_request(running, REVOKED)
        async with connected(connect, auth=AUTH) as hands:
            tool = Admin(running, None, None, hands, connect)
            both = EntityConfig.decode(znode(sha256="revoked", sha512="new")).config
            await told(tool, EntityConfig({**both, "consumer_byte_rate": "9"}).encode())
        async with storing(running, connect, forgets) as admin:
            await admin.until(lambda image: quotas(image) == {"consumer_byte_rate": "9"})
            new = {} if forgets else {"SCRAM-SHA-512": scram_text(record("new", 2))}
            await shows(admin, EntityConfig({**new, "consumer_byte_rate": "9"}).encode())
            assert list(stored(admin.image).values()) == list(new.values())
            said = "it was written while no mirror led, too long ago to tell what is new in it"
            assert (said in caplog.text) == forgets
