"""Requests that tools write to a real ZooKeeper, and that a real quorum carries out."""

import json

import trio
import trio.testing
from kazoo.security import make_acl, make_digest_acl

from tests.cluster.in_process import cluster
from tests.zkcompat.legacy.rig import ALL, CREATED, Admin, mirroring, obeying
from tests.zkcompat.rig import connected
from trimaran.quorum.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from trimaran.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from trimaran.zkcompat.legacy.admin import LegacyAdmin
from trimaran.zkcompat.legacy.controller_client import ControllerClient
from trimaran.zkcompat.legacy.requests.admin_requests import RequestKind, UndecidedError


async def test_topics_of_tools_are_created_and_deleted(tmp_path, connect):
    async with obeying(tmp_path, connect) as admin:
        await admin.write("/config/topics/new", b'{"version":1,"config":{"retention.ms":"5000"}}')
        await admin.create("new")
        assert len(admin.topics["new"].partitions) == 2
        assert dict(admin.image.configs.of(TOPIC_RESOURCE, "new")) == {"retention.ms": "5000"}

        async def has_id():
            found = await admin.hands.read("/brokers/topics/new")
            return "topic_id" in json.loads(found.data)

        await admin.until_tree(has_id)
        more = b'{"version":1,"partitions":{"0":[11],"1":[11],"2":[11]}}'
        await admin.write("/brokers/topics/new", more)
        await admin.until(lambda image: len(image.topics.by_name["new"].partitions) == 3)

        async def has_state():
            return await admin.hands.read("/brokers/topics/new/partitions/2/state") is not None

        await admin.until_tree(has_state)
        await admin.until_tree(has_id)
        await admin.write("/admin/delete_topics/new", None)
        await admin.until(lambda image: not image.topics.by_name)
        await admin.gone("/admin/delete_topics/new")
        await admin.gone("/brokers/topics/new")
        await admin.gone("/config/topics/new")


async def test_refused_request_is_removed_with_its_reason(tmp_path, connect, caplog):
    async with obeying(tmp_path, connect) as admin:
        await admin.write("/brokers/topics/far", b'{"version":1,"partitions":{"0":[99]}}')
        await admin.gone("/brokers/topics/far")
        assert "create topic far: INVALID_REPLICA_ASSIGNMENT" in caplog.text
        await admin.write("/brokers/topics/bad", b"nonsense")
        await admin.gone("/brokers/topics/bad")
        await admin.write("/admin/delete_topics/none", None)
        await admin.gone("/admin/delete_topics/none")
        assert "delete topic none: no such topic" in caplog.text
        await admin.create("t")
        gap = b'{"version":1,"partitions":{"0":[11],"1":[11],"7":[11]}}'
        await admin.write("/brokers/topics/t", gap)

        async def restored():
            found = await admin.hands.read("/brokers/topics/t")
            return "7" not in json.loads(found.data)["partitions"]

        await admin.until_tree(restored)
        assert len(admin.topics["t"].partitions) == 2


async def test_inexpressible_request_is_refused_and_stops_nothing(tmp_path, connect, caplog):
    async with obeying(tmp_path, connect) as admin:
        await admin.write("/brokers/topics/far", b'{"version":1,"partitions":{"0":[99999999999]}}')
        await admin.gone("/brokers/topics/far")
        path = "/admin/reassign_partitions"
        move = {"topic": "t", "partition": 99999999999, "replicas": [11]}
        await admin.write(path, json.dumps({"version": 1, "partitions": [move]}).encode())
        await admin.gone(path)
        await admin.create("t")
        assert "create topic far: CreateTopicsRequest" in caplog.text
        assert "reassign 1 partitions: AlterPartitionReassignmentsRequest" in caplog.text
        assert admin.mirror.status.claims == 1


async def test_repeated_tool_request_is_obeyed_again(tmp_path, connect):
    """The tool sees its request removed before the mirror has settled it."""
    path = "/admin/preferred_replica_election"
    async with cluster(tmp_path) as running, connected(connect) as hands:
        tool = Admin(running, None, None, hands, connect)
        again = [b'{"version":1,"partitions":[]}', b"nonsense"]

        class Asked(LegacyAdmin):
            async def _clean_up(self, steps, tenure):
                await LegacyAdmin._clean_up(self, steps, tenure)
                if again and steps and steps[0].path == path:
                    heard = trio.Event()
                    await tenure.keeper.read(path, heard.set)
                    await tool.write(path, again.pop())
                    await heard.wait()
                    await trio.testing.wait_all_tasks_blocked()

        def companion(feed):
            return Asked(ControllerClient(feed.leader_address), ALL)

        async with mirroring(running, connect, companion=companion) as (feed, mirror):
            admin = Admin(running, feed, mirror, hands, connect)
            await mirror.wait_status(lambda s: s.state == "in step")
            await tool.write(path, b'{"version":1,"partitions":[]}')

            async def all_asked():
                return not again

            await admin.until_tree(all_asked)
            await admin.gone(path)
            assert mirror.status.claims == 1


async def test_configs_and_quotas_of_tools_are_set(tmp_path, connect, caplog):
    async with obeying(tmp_path, connect) as admin:
        await admin.create("t")
        await admin.write(
            "/config/topics/t", b'{"version":1,"config":{"cleanup.policy":"compact"}}'
        )
        await admin.note("/config/changes/config_change_", b'"t"')
        await admin.until(lambda image: image.configs.of(TOPIC_RESOURCE, "t"))
        assert dict(admin.image.configs.of(TOPIC_RESOURCE, "t")) == {"cleanup.policy": "compact"}

        await admin.write(
            "/config/brokers/11", b'{"version":1,"config":{"log.cleaner.threads":"2"}}'
        )
        note = b'{"version":2,"entity_path":"brokers/11"}'
        await admin.note("/config/changes/config_change_", note)
        await admin.until(lambda image: image.configs.of(BROKER_RESOURCE, "11"))

        await admin.write(
            "/config/users/alice",
            b'{"version":1,"config":{"consumer_byte_rate":"1024","SCRAM-SHA-256":"salt=secret"}}',
        )
        note = b'{"version":2,"entity_path":"users/alice"}'
        await admin.note("/config/changes/config_change_", note)
        await admin.until(lambda image: image.quotas)
        ((entity, key),) = admin.image.quotas
        assert (entity, key) == ((("user", "alice"),), "consumer_byte_rate")
        assert "Refused" not in caplog.text
        assert "alter SCRAM-SHA-256 of user alice (scram is not among the kinds" in caplog.text
        assert "salt=secret" not in caplog.text

        await admin.write("/config/topics/t", b'{"version":1,"config":{"cleanup.policy":"rot"}}')
        await admin.note(
            "/config/changes/config_change_", b'{"version":2,"entity_path":"topics/t"}'
        )

        async def restored():
            found = await admin.hands.read("/config/topics/t")
            return json.loads(found.data)["config"] == {"cleanup.policy": "compact"}

        await admin.until_tree(restored)
        assert "alter the configs of topics/t: INVALID_CONFIG" in caplog.text


async def test_acls_of_tools_are_set(tmp_path, connect):
    settings = {
        "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super_users": "User:ANONYMOUS",
    }
    async with obeying(tmp_path, connect, **settings) as admin:
        acl = {"principal": "User:alice", "permissionType": "Allow", "host": "*"}
        acls = {"version": 1, "acls": [{**acl, "operation": "Alter"}]}
        path = "/kafka-acl/Cluster/kafka-cluster"
        await admin.write(path, json.dumps(acls).encode())
        await admin.note("/kafka-acl-changes/acl_changes_", b"Cluster:kafka-cluster")
        await admin.until(lambda image: image.acls)
        (entry,) = admin.image.acls.values()
        assert (entry.principal, entry.resource_name) == ("User:alice", "kafka-cluster")
        await admin.in_step()
        await admin.delete(path)
        await admin.note("/kafka-acl-changes/acl_changes_", b"Cluster:kafka-cluster")
        await admin.until(lambda image: not image.acls)


async def test_reassignments_and_elections_of_tools_run(tmp_path, connect):
    async with obeying(tmp_path, connect, brokers=2) as admin:
        await admin.create("t", b'{"version":1,"partitions":{"0":[11,12],"1":[11,12]}}')
        path = "/admin/reassign_partitions"
        await admin.write(
            path,
            b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[12,11]},'
            b'{"topic":"t","partition":1,"replicas":[12]},'
            b'{"topic":"t","partition":9,"replicas":[12]}]}',
        )
        await admin.gone(path)
        partitions = admin.topics["t"].partitions
        assert [partitions[n].replicas for n in (0, 1)] == [(12, 11), (12,)]
        assert not any(p.adding or p.removing for p in partitions.values())
        assert (partitions[0].leader, partitions[1].leader) == (11, 12)

        path = "/admin/preferred_replica_election"
        await admin.write(path, b'{"version":1,"partitions":[{"topic":"t","partition":0}]}')
        await admin.gone(path)
        await admin.until(lambda image: image.topics.by_name["t"].partitions[0].leader == 12)


async def test_running_reassignment_is_shown(tmp_path, connect):
    """The new replica's broker has not started yet, so the move cannot end."""
    async with obeying(tmp_path, connect, brokers=2) as admin:
        await admin.create("t", b'{"version":1,"partitions":{"0":[11],"1":[11]}}')
        await admin.cluster.stop(12)
        path = "/admin/reassign_partitions"
        wish = (
            b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[12]},'
            b'{"topic":"t","partition":9,"replicas":[12]}]}'
        )
        await admin.write(path, wish)
        await admin.until(lambda image: image.topics.by_name["t"].partitions[0].adding == (12,))

        async def one_is_left():
            found = await admin.hands.read(path)
            names = [p["partition"] for p in json.loads(found.data)["partitions"]]
            return names == [0]

        await admin.until_tree(one_is_left)
        await admin.cluster.start_broker(12)
        await admin.gone(path)
        assert admin.topics["t"].partitions[0].replicas == (12,)


class Losing:
    """A channel to the active controller that loses the first request of a class before it arrives."""

    def __init__(self, way, lost):
        self.way, self.lost = way, lost

    async def call(self, request):
        if self.lost is not None and isinstance(request, self.lost):
            self.lost = None
            raise UndecidedError("the connection is lost")
        return await self.way.call(request)


async def test_reassignment_with_lost_request_is_sent_again(tmp_path, connect):
    losing = None

    def companion(feed):
        nonlocal losing
        losing = Losing(ControllerClient(feed.leader_address), AlterPartitionReassignmentsRequest)
        return LegacyAdmin(losing, ALL)

    async with (
        cluster(tmp_path, brokers=2) as running,
        mirroring(running, connect, companion=companion) as (feed, mirror),
        connected(connect) as hands,
    ):
        admin = Admin(running, feed, mirror, hands, connect)
        await mirror.wait_status(lambda s: s.state == "in step")
        await admin.create("t", CREATED)
        path = "/admin/reassign_partitions"
        await admin.write(
            path, b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[12]}]}'
        )
        await admin.gone(path)
        assert losing.lost is None
        assert admin.topics["t"].partitions[0].replicas == (12,)


async def test_tools_wait_ends_if_not_obeyed(tmp_path, connect, caplog):
    async with obeying(tmp_path, connect, kinds=()) as admin:
        for path, data in (
            ("/admin/reassign_partitions", b'{"version":1,"partitions":[]}'),
            ("/admin/preferred_replica_election", b'{"version":1,"partitions":[]}'),
            ("/admin/delete_topics/t", None),
            ("/brokers/topics/t", CREATED),
        ):
            await admin.write(path, data)
            await admin.gone(path)
        assert not admin.topics
        assert caplog.text.count("Not obeyed: a tool wrote to ZooKeeper to delete topic t") == 1
        assert caplog.text.count("Not obeyed: a tool wrote to ZooKeeper to create topic t") == 1


async def test_many_disobeyed_requests_log_few_lines(tmp_path, connect, caplog):
    async with obeying(tmp_path, connect, kinds=()) as admin:
        paths = [f"/admin/delete_topics/no{i}" for i in range(60)]
        for path in paths:
            await admin.write(path, None)
        await admin.write("/admin/preferred_replica_election", b'{"version":1,"partitions":[]}')
        for path in [*paths, "/admin/preferred_replica_election"]:
            await admin.gone(path)
        assert 20 <= caplog.text.count("to delete topic no") <= 40
        assert caplog.text.count("Not obeyed: a tool wrote to ZooKeeper to elect") == 1


async def test_locked_znode_stops_nothing(tmp_path, connect, caplog):
    """The mirror may not read these requests."""
    auth = {"auth": [("digest", "owner:secret")], "secured": True}
    async with obeying(tmp_path, connect) as admin, connected(connect, **auth) as owner:
        for path in ("/admin/delete_topics/a", "/admin/preferred_replica_election"):
            await owner.ensure(path, b"{}")
            await owner.hide(path)
        await admin.create("b")
        await admin.write("/admin/delete_topics/b", None)
        await admin.gone("/admin/delete_topics/b")
        await admin.until(lambda image: not image.topics.by_name)
        assert "cannot be read" in caplog.text


async def test_irremovable_request_is_obeyed_once(tmp_path, connect, caplog):
    auth = {"auth": [("digest", "owner:secret")], "secured": True}
    async with obeying(tmp_path, connect) as admin, connected(connect, **auth) as owner:
        await admin.create("t")
        client = owner._client
        lock = [
            make_digest_acl("owner", "secret", all=True),
            make_acl("world", "anyone", read=True),
        ]
        await owner._answer(client.set_acls_async("/admin/delete_topics", lock))
        await owner.ensure("/admin/delete_topics/none", None)
        await admin.until_tree(lambda: _said(caplog, "cannot be removed"))
        await admin.create("u")
        assert caplog.text.count("delete topic none: no such topic") == 1


async def _said(caplog, text):
    return text in caplog.text


async def test_only_allowed_kinds_are_obeyed(tmp_path, connect, caplog):
    async with obeying(tmp_path, connect, kinds={RequestKind.TOPIC}) as admin:
        await admin.create("t")
        await admin.write("/admin/delete_topics/t", None)
        await admin.gone("/admin/delete_topics/t")
        assert "t" in admin.topics
        assert "deletion is not among the kinds that are obeyed" in caplog.text


async def test_comparison_leaves_open_requests_alone(tmp_path, connect):
    """The mirror compares continuously, and the quorum is unavailable for a while."""
    async with obeying(tmp_path, connect, verify_seconds=0.1) as admin:
        await admin.create("before")
        await admin.cluster.stop(1)
        await admin.write("/brokers/topics/new", CREATED)
        seen = admin.mirror.status.verifications
        await admin.mirror.wait_status(lambda s: s.verifications > seen + 3)
        assert await admin.hands.read("/brokers/topics/new") is not None
        await admin.cluster.start_controller(1)
        await admin.until(lambda image: "new" in image.topics.by_name)
        await trio.lowlevel.checkpoint()
