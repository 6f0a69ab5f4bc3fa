"""An editor's language server in a checkout finds the definitions of imported names, in the files of the rooms. Needs
basedpyright (pyright with its Node) of the package index, 60 MB, but no editor.
"""

import json
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RELEASE = "basedpyright==1.40.2"
# A line of a file, the word in it to look up, and the file that defines it.
ASKED = [
    ("broker/handlers/fetch.py", "ErrorCode", "wire/errors.py"),
    ("log/partitions/partition_log.py", "LogConfig", "log/config.py"),
    ("quorum/replica/node.py", "KafkaError", "wire/errors.py"),
    ("spark/kafka_log/source.py", "plan_log", "spark/kafka_log/plan.py"),
    ("trimaran/cli/server.py", "serve(", "trimaran/running/node_process.py"),
    ("tests/trimaran/test_layout.py", "parse_config", "trimaran/settings/node_config.py"),
]


class LanguageServer:
    """A language server, used by JSON-RPC over stdin and stdout as by an editor."""

    def __init__(self, program, root):
        self.process = subprocess.Popen(
            [program, "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root
        )
        self.numbers = 0
        folder = {"uri": root.as_uri(), "name": root.name}
        self.ask(
            "initialize",
            processId=None,
            rootUri=root.as_uri(),
            workspaceFolders=[folder],
            capabilities={},
        )
        self.tell("initialized")

    def _send(self, **message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def _receive(self):
        size = 0
        while line := self.process.stdout.readline().strip():
            if line.lower().startswith(b"content-length:"):
                size = int(line.partition(b":")[2])
        assert size, "the server has ended"
        return json.loads(self.process.stdout.read(size))

    def tell(self, method, **params):
        self._send(method=method, params=params)

    def ask(self, method, **params):
        self.numbers += 1
        self._send(id=self.numbers, method=method, params=params)
        while True:
            message = self._receive()
            if (
                "method" in message and "id" in message
            ):  # it requests settings, which all have their defaults
                items = message.get("params", {}).get("items", [])
                self._send(id=message["id"], result=[None for _ in items])
            elif message.get("id") == self.numbers:
                return message["result"]

    def definition(self, path, word):
        """Returns the files that define the last use of a word in a file."""
        text = path.read_text()
        before = text[: text.rindex(word)]
        at = {"line": before.count("\n"), "character": len(before.rpartition("\n")[2])}
        document = {"uri": path.as_uri(), "languageId": "python", "version": 1, "text": text}
        self.tell("textDocument/didOpen", textDocument=document)
        found = self.ask(
            "textDocument/definition", textDocument={"uri": path.as_uri()}, position=at
        )
        paths = [urllib.parse.urlparse(item.get("uri") or item["targetUri"]).path for item in found]
        return [Path(urllib.request.url2pathname(path)) for path in paths]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    place = tmp_path_factory.mktemp("pyright")
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    pip = [place / "bin" / "pip", "install", "-q", "--disable-pip-version-check", RELEASE]
    subprocess.run(pip, check=True)
    return place / "bin"


def test_language_server_finds_definitions(programs):
    server = LanguageServer(programs / "basedpyright-langserver", ROOT)
    try:
        for name, word, home in ASKED:
            found = server.definition(ROOT / name, word)
            assert {path.resolve() for path in found} == {ROOT / home}, (name, word, found)
    finally:
        server.process.kill()
        server.process.communicate()
