"""Actions of an intruder with a ZooKeeper shell on one znode, for each kind of znode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from kazoo.exceptions import NoNodeError, NotEmptyError
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from tests.chaos.mirror.changes import BAD
from tests.chaos.mirror.scene import Scene

FORGED = b'{"version":1,"forged":true}'
NOBODY_ELSE = [make_digest_acl("outsider", "secret", all=True)]

STATE = f"/brokers/topics/{BAD}/partitions/0/state"
CLAIM = ("/controller", "/controller_epoch", "/migration")
# Znodes with data of the mirror; `BROKER` is replaced by a broker id.
BROKER = "{broker}"
WITH_DATA = (
    "/cluster/id",
    f"/brokers/ids/{BROKER}",
    f"/brokers/topics/{BAD}",
    STATE,
    "/brokers/seqid",
    f"/config/topics/{BAD}",
    f"/config/brokers/{BROKER}",
    f"/config/users/{BAD}",
    f"/config/users/{BAD}/clients/{BAD}",
    f"/config/clients/{BAD}",
    "/config/ips/10.1.2.3",
    f"/kafka-acl/Topic/{BAD}",
    f"/kafka-acl-extended/prefixed/Topic/{BAD}",
    "/feature",
    "/latest_producer_id_block",
)
# Znodes in a quorum with tokens; a user's credentials are next to the quotas of `BAD`.
TOKEN = "{token}"
SECRETS = (f"/delegation_token/tokens/{TOKEN}",)
PARENTS = (
    f"/brokers/topics/{BAD}/partitions",
    f"/brokers/topics/{BAD}/partitions/0",
    "/config/changes",
    "/config/ips",
    "/kafka-acl-extended/prefixed/Topic",
    "/kafka-acl-changes",
)


def outsider_deletes(scene: Scene) -> Iterator[None]:
    """Deletes a znode, with all below it."""
    with scene.outsider() as client, suppress(NotEmptyError):  # the mirror may be faster
        assert client.exists(scene.victim), scene.victim
        client.delete(scene.victim, recursive=True)
    yield


def outsider_forges(scene: Scene) -> Iterator[None]:
    """Writes other data into a znode."""
    with scene.outsider() as client:
        client.set(scene.victim, FORGED)
    yield


def outsider_adds(scene: Scene) -> Iterator[None]:
    """Creates an unmirrored znode next to a mirrored one."""
    with scene.outsider() as client:
        client.create(f"{scene.victim}-extra", FORGED)
    yield


def outsider_locks(scene: Scene) -> Iterator[None]:
    """Removes all rights to a znode while its mirrored content changes, and restores them."""
    with scene.outsider() as client:
        client.add_auth("digest", "outsider:secret")
        client.set_acls(scene.victim, NOBODY_ELSE)
        scene.changes.touch_bad()
        yield
        with suppress(NoNodeError):  # the mirror may replace a znode that it may not read
            client.set_acls(scene.victim, OPEN_ACL_UNSAFE)
