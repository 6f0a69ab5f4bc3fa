"""Secrets in a real ZooKeeper: only their creator can read them, from their creation on."""

import pytest
import trio
from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE, make_digest_acl

from tests.zkcompat import build
from tests.zkcompat.rig import PATIENCE, Source, connected, differences, in_step, running
from trimaran.zkcompat.tree.claim import TransactionStep
from trimaran.zkcompat.zookeeper.errors import PathRefusedError

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]

AUTH = [("digest", "mirror:secret")]


async def granted(keeper, path):
    acl, _ = await keeper._answer(keeper._client.get_acls_async(path))
    return acl


async def test_secrets_are_creator_only_in_open_tree(connect):
    own = [make_digest_acl("mirror", "secret", all=True)]
    source = Source(
        build.scram("alice"),
        build.token("t1"),
        build.quota("consumer_byte_rate", 8.0, user="bob"),
    )
    async with (
        running(connect, source, auth=AUTH, secrets=True) as mirror,
        connected(connect) as stranger,
        connected(connect, auth=AUTH) as owner,
    ):
        await in_step(mirror, source)
        for path in ("/config/users/alice", "/delegation_token/tokens/t1"):
            assert await granted(owner, path) == own
            with pytest.raises(PathRefusedError, match="NoAuth"):
                await stranger.read(path)
        assert await stranger.read("/config/users/bob") is not None
        # A znode that was open is hidden before the secret is written.
        source.say(build.scram("bob"))
        await in_step(mirror, source)
        assert b"SCRAM-SHA-256" in (await owner.read("/config/users/bob")).data
        assert await granted(owner, "/config/users/bob") == own
        assert await differences(owner, source, secrets=True) == ()


async def test_foreign_credential_survives_quota_changes(connect):
    source = Source(build.quota("consumer_byte_rate", 8.0, user="alice"))
    async with running(connect, source) as mirror, connected(connect) as person:
        await in_step(mirror, source)
        path = "/config/users/alice"
        data = b'{"version":1,"config":{"SCRAM-SHA-256":"salt=x","consumer_byte_rate":"8"}}'
        await person.transact([TransactionStep("set", path, data)])
        source.say(build.quota("consumer_byte_rate", 9.0, user="alice"))
        await in_step(mirror, source)
        assert (await person.read(path)).data == data.replace(b'"8"', b'"9"')
        source.say(build.quota("consumer_byte_rate", None, user="alice"))
        await in_step(mirror, source)
        assert (await person.read(path)).data == (
            b'{"version":1,"config":{"SCRAM-SHA-256":"salt=x"}}'
        )
        assert await differences(person, source) == ()
        assert mirror.status.claims == 1


async def test_unhideable_znode_gets_no_secret_stops_nothing(connect):
    """An administrator's tool created the znode, and then a secret credential has to be stored in it."""
    source = Source(build.scram("alice"), build.quota("consumer_byte_rate", 8.0, user="bob"))
    path = "/config/users/alice"
    async with connected(connect, auth=[("digest", "somebody:else")]) as other:
        for parent in ("/", "/config", "/config/users"):
            await other.ensure(parent, None)
        await other.ensure(path, b'{"version":1,"config":{}}')
        acl = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
        await other._answer(other._client.set_acls_async(path, acl), path)
        async with running(connect, source, auth=AUTH, secrets=True) as mirror:
            await in_step(mirror, source)
            assert [entry.path for entry in mirror.quarantine] == [path]
            assert (await other.read(path)).data == b'{"version":1,"config":{}}'
            assert await other.read("/config/users/bob") is not None
            assert mirror.status.claims == 1
            # As soon as the znode can be hidden, it is hidden, and then gets the secret.
            acl = [*CREATOR_ALL_ACL, make_digest_acl("mirror", "secret", all=True)]
            await other._answer(other._client.set_acls_async(path, acl), path)
            with trio.fail_after(PATIENCE):
                while len(mirror.quarantine):
                    await mirror.status._changed.wait()
            async with connected(connect, auth=AUTH) as owner:
                assert b"SCRAM-SHA-256" in (await owner.read(path)).data
