"""A replacement of `docker` for tests that call `docker compose` for the brokers of their cluster: `kafka-1` is our
broker 1. `stop` and `start` stop and start the broker's process, and `logs` prints its log file.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.interop.controllers import Controllers

SCRIPT = """#!{python}
import sys, urllib.request
verb, service = sys.argv[2], sys.argv[-1]
with urllib.request.urlopen(f"{address}/{{verb}}/{{service}}") as answer:
    sys.stdout.write(answer.read().decode())
"""


@contextlib.contextmanager
def serving(nodes: Controllers, folder: Path) -> Iterator[Path]:
    """Writes the program into `folder`, which must be on the PATH, and carries out its commands."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _, verb, service = self.path.split("/")
            answer = _done(nodes, verb, int(service.removeprefix("kafka-")))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    program = folder / "docker"
    address = f"http://127.0.0.1:{server.server_port}"
    program.write_text(SCRIPT.format(python=sys.executable, address=address))
    program.chmod(0o755)
    try:
        yield program
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _done(nodes: Controllers, verb: str, broker: int) -> str:
    if verb == "logs":
        return (nodes.root / f"{broker}.log").read_text(errors="replace")
    if verb == "stop":
        nodes.kill(broker, signal.SIGTERM)
    elif broker not in nodes.processes:
        nodes.start(broker)
    return ""
