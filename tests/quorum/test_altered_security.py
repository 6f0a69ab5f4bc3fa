"""A node's client certificate changes with the certificate of the listener from which it connects to others."""

import errno
import os
import time

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.certificates import Certificates
from tests.quorum.config_of import config_of
from tests.quorum.metadata.build import config as altered
from tests.quorum.metadata.build import image_of
from trimaran.node.config.config_def import ConfigError
from trimaran.node.security.listener_security import (
    controller_security,
    inter_broker_security,
    listener_security,
)
from trimaran.node.security.logins import Logins
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import EMPTY
from trimaran.quorum.metadata.loader import Manifest
from trimaran.quorum.serving.altered_security import AlteredSecurity, check_altered
from trimaran.wire.security.listener import PLAINTEXT
from trimaran.wire.transport.server.server import Listener

THIS = (4, "1")
LOCATION = "listener.name.controller.ssl.keystore.location"


@pytest.fixture
def node(tmp_path):
    """Returns a node whose controllers use TLS, and a file with another certificate."""
    certificates = Certificates()
    (tmp_path / "node.pem").write_text("".join(certificates.server))
    (tmp_path / "new.pem").write_text("".join(certificates.issue("localhost")))
    (tmp_path / "ca.pem").write_text(certificates.ca)
    return config_of(
        **{
            "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": tmp_path / "node.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": tmp_path / "ca.pem",
            "log.dirs": tmp_path,
        }
    )


async def publish(publisher, *records):
    image = image_of(*records)
    delta = MetadataDelta(EMPTY)
    for record in records:
        delta.configs.set_config(record)
    publisher.publish(delta, image, Manifest(image.provenance))
    await publisher.apply_alterations()


async def check_renewed(listener, before):
    """A thread reads the file, so the test's clock does not cover it."""
    deadline = time.monotonic() + 5
    while listener.security is before:
        assert time.monotonic() < deadline
        await trio.lowlevel.checkpoint()


async def test_secured_listeners_are_updated_plaintext_stays(node, tmp_path):
    listener = Listener("CONTROLLER", None, listener_security(node, "CONTROLLER"))
    client = controller_security(node)
    before = listener.security.tls, client.tls
    publisher = AlteredSecurity(
        node, [listener], [(client, controller_security), (PLAINTEXT, inter_broker_security)]
    )
    location = "listener.name.controller.ssl.keystore.location"
    await publish(publisher, altered(location, str(tmp_path / "new.pem"), (4, "2")))
    await publish(publisher, altered("log.retention.ms", "5", THIS))
    assert (listener.security.tls, client.tls) == before
    await publish(publisher, altered(location, str(tmp_path / "new.pem"), THIS))
    assert listener.security.tls not in (None, before[0])
    assert client.tls not in (None, before[1])
    assert PLAINTEXT.tls is None


async def test_unusable_security_is_logged_and_ignored(node, tmp_path, caplog):
    """Requests to a controller are not checked against the files of this node."""
    listener = Listener("CONTROLLER", None, listener_security(node, "CONTROLLER"))
    before = listener.security
    publisher = AlteredSecurity(node, [listener], [])
    location = "listener.name.controller.ssl.keystore.location"
    await publish(publisher, altered(location, str(tmp_path / "none.pem"), THIS))
    assert listener.security is before
    (line,) = [
        record.message
        for record in caplog.records
        if record.name == "trimaran.quorum.serving.altered_security"
    ]
    assert location in line
    assert "the previous one stays in use" in line


async def test_changed_files_are_read_again(node, tmp_path, caplog):
    listener = Listener("CONTROLLER", None, listener_security(node, "CONTROLLER"))
    client = controller_security(node)
    publisher = AlteredSecurity(node, [listener], [(client, controller_security)])
    first = listener.security.tls, client.tls
    await publisher.read_changed_files()
    assert (listener.security.tls, client.tls) == first
    (tmp_path / "new.pem").replace(tmp_path / "node.pem")
    await publisher.read_changed_files()
    second = listener.security.tls, client.tls
    assert not set(first) & set(second)
    (tmp_path / "ca.pem").write_text("half a fi")
    await publisher.read_changed_files()
    assert (listener.security.tls, client.tls) == second
    assert "the previous one stays in use" in caplog.text
    (tmp_path / "ca.pem").unlink()
    await publisher.read_changed_files()
    assert (listener.security.tls, client.tls) == second


async def test_publishing_reads_no_file(node, tmp_path):
    """A FIFO, or a disk that does not respond, must not block the loop."""
    listener = Listener("CONTROLLER", None, listener_security(node, "CONTROLLER"))
    before = listener.security
    publisher = AlteredSecurity(node, [listener], [])
    image = image_of(altered(LOCATION, str(tmp_path / "new.pem"), THIS))
    delta = MetadataDelta(EMPTY)
    delta.configs.set_config(altered(LOCATION, str(tmp_path / "new.pem"), THIS))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(publisher.run)
        await wait_all_tasks_blocked()
        publisher.publish(delta, image, Manifest(image.provenance))
        assert listener.security is before
        await check_renewed(listener, before)
        nursery.cancel_scope.cancel()


async def test_running_node_rereads_its_files(node, tmp_path, autojump_clock):
    listener = Listener("CONTROLLER", None, listener_security(node, "CONTROLLER"))
    publisher = AlteredSecurity(node, [listener], [])
    before = listener.security
    async with trio.open_nursery() as nursery:
        nursery.start_soon(publisher.run)
        (tmp_path / "new.pem").replace(tmp_path / "node.pem")
        await trio.sleep(11)
        await check_renewed(listener, before)
        nursery.cancel_scope.cancel()


def test_keys_of_controller_listener_are_validated(node, tmp_path):
    configs = image_of().configs
    location = "listener.name.controller.ssl.keystore.location"
    check_altered(node, configs, {location: str(tmp_path / "new.pem")})
    with pytest.raises(ConfigError, match=r"none\.pem"):
        check_altered(node, configs, {location: str(tmp_path / "none.pem")})
    with pytest.raises(ConfigError, match="no such listener"):
        check_altered(node, configs, {"listener.name.x.ssl.keystore.location": "f"})


async def test_altered_file_is_watched_for_changes(node, tmp_path):
    """The initial file is no longer watched."""
    listener = Listener("CONTROLLER", None, listener_security(node, "CONTROLLER"))
    publisher = AlteredSecurity(node, [listener], [])
    await publish(publisher, altered(LOCATION, str(tmp_path / "new.pem"), THIS))
    first = listener.security
    (tmp_path / "node.pem").write_text("no certificate")
    await publisher.read_changed_files()
    assert listener.security is first, "nobody reads that file any more"
    (tmp_path / "new.pem").write_text("".join(Certificates().issue("localhost")))
    await publisher.read_changed_files()
    assert listener.security is not first


async def test_files_are_checked_at_configured_interval(node, tmp_path, autojump_clock):
    looks = []
    publisher = AlteredSecurity(node, [], [])

    async def look():
        looks.append(trio.current_time() - began)

    publisher.read_changed_files = look
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(publisher._watch_files)
        await trio.sleep(35)
        nursery.cancel_scope.cancel()
    assert looks == [10, 20, 30]


async def test_second_alteration_applies_others_are_ignored(node, tmp_path):
    listener = Listener("CONTROLLER", None, listener_security(node, "CONTROLLER"))
    client = controller_security(node)
    publisher = AlteredSecurity(node, [listener], [(client, controller_security)])
    await publish(publisher, altered(LOCATION, str(tmp_path / "new.pem"), THIS))
    first, shown = listener.security, client.tls
    await publisher.apply_alterations()
    assert listener.security is first, "nothing was altered since"
    assert client.tls is shown
    other = "listener.name.plaintext.ssl.keystore.location"
    await publish(publisher, altered(other, str(tmp_path / "node.pem"), THIS))
    assert listener.security is first
    await publish(publisher, altered(LOCATION, str(tmp_path / "node.pem"), THIS))
    assert listener.security is not first


def test_earlier_alterations_combine_with_later_ones(node, tmp_path):
    """One alteration has a key, another its file; and a reverted alteration has no effect any more."""
    configs = image_of(altered("listener.name.controller.ssl.keystore.type", "JKS", THIS)).configs
    new = {LOCATION: str(tmp_path / "new.pem")}
    with pytest.raises(ConfigError):
        check_altered(node, configs, new)
    check_altered(node, configs, {**new, "listener.name.controller.ssl.keystore.type": None})
    check_altered(node, image_of().configs, new)
    check_altered(node, configs, {"log.retention.ms": "5"})


def test_first_missing_listener_by_name_is_reported(node):
    names = [
        f"listener.name.{letter}.ssl.keystore.location" for letter in "zxywvutsrqponmlkjihgfedcab"
    ]
    with pytest.raises(ConfigError, match=r"listener\.name\.a\.ssl.*no such listener") as caught:
        check_altered(node, image_of().configs, dict.fromkeys(names, "f"))
    assert caught.value.fix == "see the key `listeners`"


def test_configs_of_existing_listener_are_accepted(tmp_path):
    """A plaintext listener uses none of them; the configs of several listeners are checked one by one."""
    broker = config_of(
        **{
            "process.roles": "broker",
            "node.id": "2",
            "listeners": "PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT"
            ),
        }
    )
    names = [f"listener.name.{item}.ssl.keystore.location" for item in ("plaintext", "inside")]
    check_altered(broker, image_of().configs, dict.fromkeys(names, "f"))
    check_altered(broker, image_of().configs, dict.fromkeys(names[:1], "f"))
    others = [*names, "listener.name.outside.ssl.keystore.location"]
    with pytest.raises(ConfigError, match="no such listener"):
        check_altered(broker, image_of().configs, dict.fromkeys(others, "f"))


def test_known_users_are_those_given_to_node(node):
    logins = Logins()
    assert AlteredSecurity(node, [], [], logins)._logins is logins
    assert isinstance(AlteredSecurity(node, [], [])._logins, Logins)


async def test_alterations_between_two_checks_apply_together(node, tmp_path):
    """Each alters another listener; both of them are in effect afterwards."""
    two = config_of(
        **{
            **node.texts,
            "listeners": "CONTROLLER://127.0.0.1:0,OTHER://127.0.0.1:0",
            "controller.listener.names": "CONTROLLER,OTHER",
            "listener.security.protocol.map": "CONTROLLER:SSL,OTHER:SSL,PLAINTEXT:PLAINTEXT",
        }
    )
    names = ("CONTROLLER", "OTHER")
    listeners = [Listener(name, None, listener_security(two, name)) for name in names]
    before = [listener.security for listener in listeners]
    publisher = AlteredSecurity(two, listeners, [])
    new = str(tmp_path / "new.pem")
    records = [
        altered(f"listener.name.{name.lower()}.ssl.keystore.location", new, THIS) for name in names
    ]
    for number, record in enumerate(records, 1):
        delta = MetadataDelta(EMPTY)
        delta.configs.set_config(record)
        image = image_of(*records[:number])
        publisher.publish(delta, image, Manifest(image.provenance))
    assert dict(publisher._configs.of(*THIS)) == {
        f"listener.name.{name.lower()}.ssl.keystore.location": new for name in names
    }
    await publisher.apply_alterations()
    assert [listener.security is old for listener, old in zip(listeners, before, strict=True)] == [
        False,
        False,
    ]
    second = [listener.security for listener in listeners]
    await publish(publisher, *records[:1])
    assert [listener.security is old for listener, old in zip(listeners, second, strict=True)] == [
        False,
        True,
    ]


async def test_files_of_all_listeners_are_checked(node, tmp_path):
    """This includes the files of a controller's listener, to which this node only connects; a missing file is
    identified by its error.
    """
    publisher = AlteredSecurity(node, [], [])
    assert set(publisher._file_signatures()) == {
        str(tmp_path / "node.pem"),
        str(tmp_path / "ca.pem"),
    }
    (tmp_path / "ca.pem").unlink()
    found = os.stat(tmp_path / "node.pem")
    assert publisher._file_signatures() == {
        str(tmp_path / "node.pem"): (found.st_mtime_ns, found.st_size, found.st_ino),
        str(tmp_path / "ca.pem"): errno.ENOENT,
    }


def test_unrelated_alterations_ignore_earlier_invalid_ones(node):
    """A log may contain configs that this node does not accept."""
    configs = image_of(altered("listener.name.controller.max.connections", "many", THIS)).configs
    with pytest.raises(ConfigError):
        check_altered(node, configs, {LOCATION: "f"})
    check_altered(node, configs, {"log.retention.ms": "5"})


def test_altered_client_keys_of_broker_are_validated(node, tmp_path):
    """The broker has no listener with that name, and no other alteration reads the file."""
    broker = config_of(
        **{
            **node.texts,
            "process.roles": "broker",
            "node.id": "2",
            "broker.id": "2",
            "listeners": "PLAINTEXT://127.0.0.1:0",
        }
    )
    configs = image_of().configs
    check_altered(broker, configs, {LOCATION: str(tmp_path / "new.pem")})
    with pytest.raises(ConfigError, match=r"none\.pem"):
        check_altered(broker, configs, {LOCATION: str(tmp_path / "none.pem")})
    bad = image_of(altered(LOCATION, str(tmp_path / "none.pem"), (4, "2"))).configs
    check_altered(broker, bad, {"listener.name.plaintext.ssl.keystore.location": "f"})
