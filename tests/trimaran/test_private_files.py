"""A local cluster's files are used only if no other user can have written them."""

import json
import os
import socket
import stat
import threading

import pytest

from trimaran.errors.user_error import UserError
from trimaran.local import control, private_files, state_file
from trimaran.local.layout import ClusterPlan, NodePlan, write_properties
from trimaran.local.private_files import private_directory, reason_for_distrust, write_private
from trimaran.local.starting import lock_directory
from trimaran.local.state_file import ClusterState, NodeState

FOREIGN_UID = 4321


@pytest.fixture
def give_away(monkeypatch):
    """Gives a file to another user: root changes the owner, other users become another user themselves."""

    def give(path):
        if os.geteuid() == 0:
            os.chown(path, FOREIGN_UID, -1)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: FOREIGN_UID)

    return give


def state(data):
    node = NodeState(11, "broker-11", "broker", "127.0.0.1:9", None, None, str(data), "stopped")
    return ClusterState("id", "b", "c", None, "socket", 1, 1, {"k": "v"}, (node,))


@pytest.fixture
def data(tmp_path):
    made = tmp_path / ".trimaran"
    made.mkdir(mode=0o700)
    state_file.write(made, state(made))
    return made


def test_file_of_this_user_is_obeyed(data):
    assert reason_for_distrust(data / state_file.FILE_NAME) is None
    assert state_file.read(data).cluster_id == "id"


def test_file_of_another_user_is_refused_in_words(data, give_away):
    give_away(data / state_file.FILE_NAME)
    with pytest.raises(UserError, match="is not obeyed") as caught:
        state_file.read(data)
    assert "belongs to another user" in caught.value.why
    assert "--data" in caught.value.fix


def test_directory_of_another_user_is_refused(data, give_away):
    give_away(data)
    with pytest.raises(UserError, match="is not obeyed"):
        state_file.read(data)


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_file_that_others_may_write_is_refused(data, mode):
    (data / state_file.FILE_NAME).chmod(mode)
    with pytest.raises(UserError, match="is not obeyed") as caught:
        state_file.read(data)
    assert "other users may write" in caught.value.why


def test_directory_writable_by_others_is_refused(data):
    data.chmod(0o777)
    assert "replace files" in (reason_for_distrust(data / state_file.FILE_NAME) or "")
    data.chmod(0o1777)  # like /tmp: only owners may replace files
    assert reason_for_distrust(data / state_file.FILE_NAME) is None


def test_foreign_users_cluster_above_is_skipped(data, give_away):
    below = data.parent / "a" / "b"
    below.mkdir(parents=True)
    assert state_file.nearest(below / data.name) == data
    give_away(data / state_file.FILE_NAME)
    assert state_file.nearest(below / data.name) == below / data.name


def test_sudo_user_is_trusted(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert not private_files.is_trusted(FOREIGN_UID)
    monkeypatch.setenv("SUDO_UID", str(FOREIGN_UID))
    assert private_files.is_trusted(FOREIGN_UID)
    monkeypatch.setattr(os, "geteuid", lambda: FOREIGN_UID + 1)
    assert not private_files.is_trusted(FOREIGN_UID), (
        "the variable is anybody's where nobody is root"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "../broker-11"},
        {"name": "/etc"},
        {"name": "broker-12"},
        {"role": "..", "name": "..-11"},
        {"id": None, "name": "broker-11/.."},
        {"pid": -1},
        {"pid": 0},
    ],
)
def test_node_outside_directory_or_process_is_refused(data, wrong):
    file = data / state_file.FILE_NAME
    content = json.loads(file.read_text())
    content["nodes"][0] |= wrong
    file.write_text(json.dumps(content))
    with pytest.raises(UserError, match="is not what trimaran up wrote"):
        state_file.read(data)


def test_process_without_a_start_time_is_not_signalled(data):
    file = data / state_file.FILE_NAME
    content = json.loads(file.read_text())
    content["nodes"][0] |= {"pid": os.getpid(), "started": None, "state": "running"}
    file.write_text(json.dumps(content))
    assert [node.pid for node in state_file.read(data).nodes] == [None]


def test_up_creates_private_directory_despite_umask(tmp_path):
    before = os.umask(0)
    try:
        with lock_directory(tmp_path / "c"):
            assert stat.S_IMODE((tmp_path / "c").stat().st_mode) == 0o755
    finally:
        os.umask(before)


def test_up_refuses_world_writable_directory_before_start(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(UserError, match="no place for a cluster") as refused:
        lock_directory(tmp_path)
    assert f"chmod go-w {tmp_path}" in refused.value.fix
    tmp_path.chmod(0o1777)
    with lock_directory(tmp_path):
        assert list(tmp_path.iterdir())


def test_settings_are_written_for_this_user_only(tmp_path):
    before = os.umask(0o002)
    try:
        node = NodePlan("broker-11", "broker", 11, 9092, tmp_path / "broker-11")
        plan = ClusterPlan(tmp_path, "id", (node,), {"ssl.key.password": "secret"})
        write_properties(plan, node)
        state_file.write(tmp_path, state(tmp_path))
    finally:
        os.umask(before)
    for file in (node.properties_file, tmp_path / state_file.FILE_NAME):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_readable_file_becomes_private(tmp_path):
    file = tmp_path / "broker-11.properties"
    file.write_text("old and longer than the new text")
    file.chmod(0o644)
    write_private(file, "new")
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("new", 0o600)


def test_socket_of_deep_directory_is_in_private_one(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    path = control.socket_path(tmp_path / ("d" * 120))
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.parent.parent == tmp_path
    assert path == control.socket_path(tmp_path / ("d" * 120)), "a restart finds the same"


@pytest.mark.parametrize("kind", ["link", "wide", "file"])
def test_private_directory_that_another_user_prepared_is_refused(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    name = tmp_path / f"trimaran-{os.geteuid()}"
    if kind == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        name.symlink_to(tmp_path / "elsewhere")
    elif kind == "wide":
        name.mkdir()
        name.chmod(0o755)
    else:
        name.write_text("")
    with pytest.raises(OSError, match=r"mode 0700|exists"):
        private_directory()


def test_only_this_user_may_connect_to_the_supervisor(tmp_path):
    path = tmp_path / control.SOCKET_NAME
    with control.listen(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.umask(os.umask(0o022)) != 0o177


def test_other_users_supervisor_receives_nothing(tmp_path, monkeypatch):
    path = tmp_path / control.SOCKET_NAME
    received = []

    def serve(server):
        connection, _ = server.accept()
        with connection:
            received.append(connection.recv(4096))

    with control.listen(path) as server:
        server.setblocking(True)
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        monkeypatch.setattr(control, "peer_uid", lambda _: FOREIGN_UID)
        with pytest.raises(UserError, match="does not answer") as caught:
            control.ask(str(path), "stop")
        thread.join()
    assert "another user" in caught.value.why
    assert received == [b""]


def test_peer_of_a_socket_is_known():
    one, other = socket.socketpair()
    with one, other:
        assert private_files.peer_uid(one) == os.geteuid()
