"""The start and the end of a controller's process, and its other tasks: real processes with sockets and disks."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
import trio
import trio.testing

from tests.cluster.in_process import Images, cluster
from tests.cluster.nodes import CLUSTER_ID, SECONDS
from tests.quorum.config_of import config_of
from tests.quorum.controller.handlers.controller_client import SUPER_USER
from tests.quorum.metadata.build import config as altered
from trimaran.log.directories.directory import LogDirectory
from trimaran.node.listening import addresses
from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.ports import port_of, reserve
from trimaran.node.runtime.steps import at_once
from trimaran.quorum import events
from trimaran.quorum.controller import server
from trimaran.quorum.controller.server import run_controller
from trimaran.quorum.formatting.storage import format_directories
from trimaran.quorum.metadata.authorizer import Action
from trimaran.quorum.replica.node import QuorumNode
from trimaran.quorum.replica.quorum_state_file import QuorumStateError
from trimaran.quorum.serving.altered_security import AlteredSecurity
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import NO_BROKER_EPOCH
from trimaran.wire.security.acls import Operation
from trimaran.wire.security.principal import Principal
from trimaran.wire.text.events import event_of
from trimaran.wire.transport.server.server import Server


async def test_start_and_clean_end_are_recorded(tmp_path, caplog):
    def told():
        ours = (events.CONTROLLER_STARTED, events.CONTROLLER_STOPPED)
        return [one for record in caplog.records if (one := event_of(record)) in ours]

    with caplog.at_level("INFO"):
        async with cluster(tmp_path, brokers=0) as nodes:
            await nodes.active()
            assert told() == [events.CONTROLLER_STARTED]
            await nodes.stop(1)
    assert told() == [events.CONTROLLER_STARTED, events.CONTROLLER_STOPPED]
    directory = LogDirectory(tmp_path / "1")
    assert directory.previous_broker_epoch == NO_BROKER_EPOCH, "it ended cleanly"
    directory.close(broker_epoch=None)


async def test_credentials_are_read_early_only_for_scram(tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr(server, "last_image", lambda *arguments: read.append(arguments))
    async with cluster(tmp_path, brokers=0) as nodes:
        await nodes.active()
    assert read == [], "its listeners are of PLAINTEXT"


async def test_broker_registers_with_active_controller(tmp_path):
    async with cluster(tmp_path, brokers=0) as nodes:
        images = Images(await nodes.active())
        image = await images.wait_for(lambda image: 1 in image.cluster.controllers)
    registered = image.cluster.controllers[1]
    assert [listener.port for listener in registered.listeners] == [nodes.voters[1]]
    assert len(set(registered.incarnation_id)) > 1, "drawn"


async def test_node_without_metadata_authorizes_nobody(tmp_path):
    """The node is one of three voters and alone, so no leader can send it the ACLs."""
    asked = Principal("alice"), "host", Action(Operation.CREATE)
    with ExitStack() as kept:
        ports = [port_of(kept.enter_context(reserve())) for _ in range(3)]
        async with cluster(tmp_path, controllers=0, brokers=0, **SUPER_USER) as nodes:
            nodes.voters = dict(enumerate(ports, 1))
            running = await nodes.start_controller(1)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(KafkaError, match="has not loaded all ACLs yet"):
                running.context.authorizer.judge(*asked)
            await nodes.stop(1)


@pytest.mark.parametrize("controllers", [1, 3])
async def test_stopping_controller_hands_over_and_drains(tmp_path, monkeypatch, controllers):
    """A sole controller waits for no successor."""
    asked = []
    stop, drain = QuorumNode.stop, Server.drain

    async def noted_stop(self, seconds):
        asked.append(("stop", seconds))
        await stop(self, seconds)

    async def noted_drain(self, seconds):
        asked.append(("drain", seconds))
        await drain(self, seconds)

    monkeypatch.setattr(QuorumNode, "stop", noted_stop)
    monkeypatch.setattr(Server, "drain", noted_drain)
    async with cluster(tmp_path, controllers=controllers, brokers=0) as nodes:
        await nodes.stop((await nodes.active()).node_id)
    waits = 0.0 if controllers == 1 else 0.5
    assert asked[:2] == [("stop", waits), ("drain", 1.0)]


async def test_failed_start_closes_its_listener(tmp_path):
    """The controller's vote file is damaged, which is found when it already listens."""
    listening = reserve()
    listening.listen()
    port = port_of(listening)
    config = config_of(
        listeners=f"CONTROLLER://127.0.0.1:{port}",
        controller_quorum_voters=f"1@127.0.0.1:{port}",
        log_dirs=tmp_path,
    )
    format_directories(config, CLUSTER_ID)
    LogDirectory(tmp_path).close(broker_epoch=None)
    metadata = tmp_path / "__cluster_metadata-0"
    metadata.mkdir(exist_ok=True)
    (metadata / "quorum-state").write_text("{")
    with pytest.RaisesGroup(QuorumStateError, flatten_subgroups=True):
        await run_controller(config, sockets={"CONTROLLER": listening})
    assert listening.fileno() == -1, "closed"


async def test_listener_files_are_checked_repeatedly(tmp_path, monkeypatch):
    looks, enough = [], trio.Event()

    async def look(self):
        looks.append(self)
        if len(looks) > 2:
            enough.set()

    monkeypatch.setattr(AlteredSecurity, "read_changed_files", look)
    async with cluster(tmp_path, brokers=0, trimaran_ssl_reload_interval_ms=1):
        with trio.fail_after(SECONDS):
            await enough.wait()
    assert len(set(looks)) == 1


async def test_hosts_in_altered_configuration_are_resolved(tmp_path, monkeypatch):
    asked, looked = [], trio.Event()

    async def look_up(host):
        asked.append(host)
        looked.set()
        return ("127.0.0.9",)

    monkeypatch.setattr(addresses, "_look_up", look_up)
    async with cluster(tmp_path, brokers=0) as nodes:
        active = (await nodes.active()).context.controller.active()
        bound = altered("max.connections.per.ip.overrides", "front.example:7", (4, ""))
        at_once(active.write(Result([bound], None)))
        with trio.fail_after(SECONDS):
            await looked.wait()
    assert asked == ["front.example"]
