"""`users` and `tokens` as an operator types them, on a node that requires every client to log in."""

import json
import subprocess

import pytest

from tests.cluster.login_node import LoginNode
from tests.cluster.processes import trimaran
from trimaran.errors.user_error import Exit
from trimaran.local.layout import FreePorts


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with FreePorts() as ports:
        with LoginNode(tmp_path_factory.mktemp("logins"), ports).running() as node:
            yield node


def run(node, *words, way="SCRAM-SHA-512", file=None, **options):
    file = file or node.file_of(way)
    return trimaran(*words, "-b", node.at("LOGINS"), "--command-config", file, **options)


def rows(node, *words):
    return json.loads(run(node, *words, "-o", "json").stdout)


def file_of(node, mechanism, name, password, more=""):
    file = node.dir / f"{name}.properties"
    settings = node.properties(mechanism)
    module = settings["sasl.jaas.config"].split()[0]
    jaas = f'{module} required username="{name}" password="{password}"{more};'
    settings |= {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return file


def test_users_are_created_listed_and_deleted(node):
    tried = run(node, "users", "add", "bob", "--dry-run", stdin="first\n").stderr
    assert tried.startswith("would add bob")
    assert {row["user"] for row in rows(node, "users", "list")} == {"alice"}
    run(node, "users", "add", "bob", "-m", "SCRAM-SHA-256", stdin="first\n")
    assert {"user": "bob", "mechanism": "SCRAM-SHA-256", "iterations": 8192} in rows(
        node, "users", "list"
    )
    first = file_of(node, "SCRAM-SHA-256", "bob", "first")
    run(node, "topics", "list", file=first)
    (node.dir / "password").write_text("second\nand more\n")
    run(node, "users", "add", "bob", "--password-file", node.dir / "password")
    assert len(rows(node, "users", "list", "bob")) == 2
    refused = run(node, "topics", "list", file=first, check=False)
    assert refused.returncode == Exit.REFUSED
    assert "invalid credentials" in refused.stderr
    second = file_of(node, "SCRAM-SHA-512", "bob", "second")
    run(node, "topics", "list", file=second)
    tried = run(node, "users", "add", "bob", "--dry-run", stdin="third\n").stderr
    assert tried.startswith("would change the password of bob")
    assert run(node, "users", "remove", "bob", "--dry-run").stderr == (
        "would remove bob with SCRAM-SHA-256, SCRAM-SHA-512; nothing was changed\n"
    )
    run(node, "topics", "list", file=second)
    missing = run(node, "users", "remove", "bob", "eve", "mallory-*", check=False)
    assert (missing.returncode, len(rows(node, "users", "list", "bob"))) == (Exit.REFUSED, 2)
    assert "there are no users eve, mallory-*" in missing.stderr
    run(node, "users", "add", "carol", stdin="first\n")
    removed = run(node, "users", "remove", "bo*", "carol").stderr
    assert [line.split()[0] for line in removed.splitlines()] == ["bob", "carol"]
    assert run(node, "topics", "list", file=second, check=False).returncode == Exit.REFUSED
    assert run(node, "users", "remove", "bob", check=False).returncode == Exit.REFUSED
    assert {row["user"] for row in rows(node, "users", "list")} == {"alice"}


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (("eve",), ""),
        (("eve", "--password-variable", "NOT_SET"), None),
        (("eve", "--password-file", "/nowhere"), None),
        (("eve", "--iterations", "1"), "x\n"),
        (("eve", "-m", "SCRAM-SHA-1"), "x\n"),
    ],
)
def test_invalid_users_are_refused(node, words, stdin):
    assert run(node, "users", "add", *words, stdin=stdin, check=False).returncode != 0
    assert {row["user"] for row in rows(node, "users", "list")} == {"alice"}


def test_token_is_created_renewed_and_expired(node):
    before = rows(node, "tokens", "list")
    run(node, "tokens", "create", "--dry-run")
    assert rows(node, "tokens", "list") == before
    created = rows(node, "tokens", "create", "--days", "1", "--renewer", "User:bob")
    assert created["owner"] == "User:alice"
    token = file_of(node, "SCRAM-SHA-256", created["token"], created["hmac"], ' tokenauth="true"')
    run(node, "topics", "list", file=token)
    refused = run(node, "tokens", "create", file=token, check=False)
    assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in refused.stderr
    listed = rows(node, "tokens", "list")
    assert created["hmac"] not in json.dumps(listed)
    assert [row["renewers"] for row in listed if row["token"] == created["token"]] == ["User:bob"]
    assert "expires at" in run(node, "tokens", "renew", created["hmac"]).stderr
    tried = run(node, "tokens", "expire", created["hmac"], "--dry-run").stderr
    assert tried == f"would expire token {created['token']}; nothing was changed\n"
    run(node, "topics", "list", file=token)
    run(node, "tokens", "expire", created["hmac"])
    assert run(node, "tokens", "renew", created["hmac"], "--dry-run", check=False).returncode != 0
    assert run(node, "topics", "list", file=token, check=False).returncode == Exit.REFUSED
    gone = run(node, "tokens", "renew", created["hmac"], check=False)
    assert "DELEGATION_TOKEN_NOT_FOUND" in gone.stderr


def test_no_secret_appears_in_logs_errors_arguments(node):
    run(node, "topics", "list", file=file_of(node, "PLAIN", "alice", "of-nobody"), check=False)
    log = (node.dir / "node.err").read_text()
    said = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True)
    dumped = trimaran("metadata", "image", node.dir / "data", check=False).stdout
    for secret in ("of-tokens", "of-nobody", 'user_alice="secret"', node.token_hmac):
        assert secret not in log + said.stdout + dumped
    assert "invalid credentials" in log


def test_unset_variable_stops_the_start(node):
    words = ("server", "start", "-c", str(node.dir / "server.properties"))
    done = trimaran(*words, check=False)
    assert done.returncode == Exit.USAGE
    assert "TOKEN_SECRET" in done.stderr
