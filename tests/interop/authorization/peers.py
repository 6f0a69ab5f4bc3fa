"""One node of Apache Kafka and one of ours with the same configuration, and connections for raw frames. Clients log in
by PLAIN, on a listener of the broker and on one of the controller. The nodes themselves are ANONYMOUS, which is a super
user, as is `root`.
"""

import contextlib
import socket
import subprocess
import sys
import time

from tests.cluster.processes import ROOT, trimaran, until
from tests.interop import apache_kafka
from trimaran.local.layout import FreePorts
from trimaran.node.security.plain import PLAIN_MODULE
from trimaran.wire.messages.api_versions import ApiVersionsRequest
from trimaran.wire.messages.header import decode_response_header, encode_request
from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from trimaran.wire.messages.sasl_handshake import SaslHandshakeRequest

USERS = ("root", "alice", "bob", "carol")
SECONDS, SECONDS_TO_START = 30, 120
LISTENERS = ("CONTROLLER", "INTERNAL", "CLIENTS", "ADMINS")
PROPERTIES = """
node.id=1
process.roles=broker,controller
controller.quorum.voters=1@127.0.0.1:{CONTROLLER}
controller.listener.names=CONTROLLER,ADMINS
inter.broker.listener.name=INTERNAL
listener.security.protocol.map=CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,ADMINS:SASL_PLAINTEXT
listeners=CONTROLLER://127.0.0.1:{CONTROLLER},INTERNAL://127.0.0.1:{INTERNAL},CLIENTS://127.0.0.1:{CLIENTS},\
ADMINS://127.0.0.1:{ADMINS}
log.dirs={dir}/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
group.consumer.max.session.timeout.ms=3600000
group.consumer.session.timeout.ms=3600000
delegation.token.secret.key=of-tokens
sasl.enabled.mechanisms=PLAIN
listener.name.clients.plain.sasl.jaas.config={plain} required {users};
listener.name.admins.plain.sasl.jaas.config={plain} required {users};
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:root
allow.everyone.if.no.acl.found={everyone}
"""


class Closed(Exception):
    """Raised if the node closed the connection instead of responding."""


class Connection:
    """A connection to one listener as one user, from an address of this machine."""

    def __init__(self, port, user, host="127.0.0.1"):
        self._socket = socket.create_connection(
            ("127.0.0.1", port), SECONDS, source_address=(host, 0)
        )
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        login = SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{user}".encode())
        assert self.call(login, 2).error_code == 0
        answer = self.call(ApiVersionsRequest(), 0)
        self.versions = {
            api_key.api_key: (api_key.min_version, api_key.max_version)
            for api_key in answer.api_keys
        }

    def call(self, request, version):
        frame = bytes(encode_request(request, version, 7, "differential"))
        try:
            self._socket.sendall(len(frame).to_bytes(4, "big") + frame)
            size = int.from_bytes(self._exactly(4), "big")
            data = self._exactly(size)
        except (ConnectionError, BrokenPipeError) as error:
            raise Closed from error
        _, body = decode_response_header(data, request.KEY, version)
        return RESPONSES[request.KEY].decode(data[body:], version)

    def close(self):
        self._socket.close()

    def _exactly(self, count):
        data = bytearray()
        while len(data) < count:
            piece = self._socket.recv(count - len(data))
            if not piece:
                raise Closed
            data += piece
        return bytes(data)


class Peer:
    """A running node; `name` is kafka or ours, `pid` its process."""

    def __init__(self, name, directory, ports):
        self.name, self.dir = name, directory
        self.ports = {listener: next(ports) for listener in LISTENERS}
        self._open = {}
        self.pid = 0

    @contextlib.contextmanager
    def running(self, *, everyone, more=""):
        """Runs the node; `more` are further lines of its properties file."""
        file, log = self.dir / "server.properties", self.dir / "node.log"
        users = " ".join(f'user_{name}="{name}"' for name in USERS)
        values = {"plain": PLAIN_MODULE, "users": users, "everyone": str(everyone).lower()}
        file.write_text(PROPERTIES.format(**self.ports, **values, dir=self.dir) + more)
        cluster_id = trimaran("storage", "random-uuid").stdout.strip()
        words = ("format", "-t", cluster_id, "-c", str(file))
        if self.name == "kafka":
            apache_kafka.tool("storage", *words)
            command = apache_kafka.java("kafka.Kafka", str(file), level="info", heap="1g")
        else:
            trimaran("storage", *words)
            command = [sys.executable, "-m", "trimaran", "server", "start", "-c", str(file)]
        with log.open("w") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, cwd=ROOT)
        self.pid = process.pid
        started = ("id=1] started", "Kafka Server started")
        try:
            until(
                lambda: any(line in log.read_text() for line in started) or process.poll(),
                "started",
                SECONDS_TO_START,
            )
            assert process.poll() is None, log.read_text()[-3000:]
            yield self
        finally:
            for connection in self._open.values():
                connection.close()
            process.terminate()
            process.wait(SECONDS)

    def connection(self, listener, user, host="127.0.0.1"):
        key = (listener, user, host)
        if key not in self._open:
            self._open[key] = Connection(self.ports[listener], user, host)
        return self._open[key]

    def ask(self, listener, user, host, request, version):
        """Returns the response; None if the connection was closed instead."""
        try:
            return self.connection(listener, user, host).call(request, version)
        except Closed:
            self._open.pop((listener, user, host)).close()
            return None

    def root(self, request, version, listener="CLIENTS"):
        return self.connection(listener, "root").call(request, version)


@contextlib.contextmanager
def two_peers(directory, *, everyone, more=""):
    """Starts Apache Kafka's node and ours together; yields both."""
    with contextlib.ExitStack() as stack, FreePorts() as ports:
        found = []
        for name in ("kafka", "ours"):
            own = directory / name
            own.mkdir(parents=True)
            found.append(Peer(name, own, ports))
        for peer in found:
            stack.enter_context(peer.running(everyone=everyone, more=more))
        yield found


def eventually(what, ask):
    """Repeats the query until its result is true, because nodes learn of changes asynchronously."""
    deadline = time.monotonic() + SECONDS
    while not (found := ask()):
        assert time.monotonic() < deadline, what
        time.sleep(0.01)
    return found
