"""`trimaran proxy` as a process, and its refusals."""

import signal
import subprocess
import sys

import pytest

from tests.certificates import Certificates
from tests.trimaran.fault_control.conftest import control_told
from trimaran.errors.user_error import UserError
from trimaran.faults import proxy_process
from trimaran.faults.fault_set import FaultSet
from trimaran.faults.proxy import ProxySettings
from trimaran.faults.ready_plans import find_plan
from trimaran.testing import EmbeddedKafka
from trimaran.testing.proxied import ProxyThread
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.client.bootstrap import parse_bootstrap
from trimaran.wire.identity import Address
from trimaran.wire.security.listener import ClientSecurity

PLAN = """\
[[rules]]
name = "hidden"
api = "Metadata"
topic = "hidden"
error = "LEADER_NOT_AVAILABLE"

[[rules]]
name = "never"
api = "Fetch"
delay = 1
"""


def test_proxy_prints_what_it_has_done(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    with EmbeddedKafka() as kafka:
        kafka.create_topic("hidden")
        command = [sys.executable, "-m", "trimaran", "proxy", "--upstream", kafka.bootstrap]
        command += ["--listen", "127.0.0.1:0", "--plan", str(plan)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            address = process.stderr.readline().split()[2]
            with BlockingClient(address) as client:
                (topic,) = client.refresh(["hidden"]).topics
            process.send_signal(signal.SIGTERM)
            text = process.stderr.read()
        assert process.returncode == 0
    assert topic.error_code == 5
    assert "Metadata v" in text
    assert "hidden: error LEADER_NOT_AVAILABLE" in text
    assert "rule never matched no request" in text


def test_proxy_has_a_control(tmp_path):
    with EmbeddedKafka() as kafka:
        command = [sys.executable, "-m", "trimaran", "proxy", "--upstream", kafka.bootstrap]
        command += ["--listen", "127.0.0.1:0", "--control", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            address = process.stderr.readline().split()[2]
            control = control_told(process.stderr.readline())
            assert control.ask("POST", "/topics", {"name": "hidden"})[0] == 201
            rule = {"name": "hides", "api": "Metadata", "topic": "hidden"}
            rule["error"] = "LEADER_NOT_AVAILABLE"
            assert control.ask("POST", "/rules", rule)[0] == 201
            with BlockingClient(address) as client:
                (topic,) = client.refresh(["hidden"]).topics
            assert control.ask("GET", "/rules/hides/wait?seconds=30")[1]["applied"] >= 1
            assert control.ask("GET", "/cluster", token=None)[0] == 401
            assert control.ask("GET", "/cluster")[1]["nodes"] == []
            assert control.refusal("POST", "/nodes/1/kill")[0] == 501
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
        assert process.returncode == 0
    assert topic.error_code == 5


def test_topics_are_created_by_tls(tmp_path):
    """The proxy speaks TLS to its clients and to the broker; the control is used by HTTP."""
    certificates = Certificates()
    chain, authority = tmp_path / "proxy.pem", tmp_path / "authority.pem"
    chain.write_text("".join(certificates.server))
    authority.write_text(certificates.ca)
    with EmbeddedKafka() as kafka:
        settings = ProxySettings(
            parse_bootstrap(kafka.bootstrap), tls=certificates.server_context()
        )
        encrypted = ProxyThread(settings, FaultSet())
        command = [sys.executable, "-m", "trimaran", "proxy", "--upstream", encrypted.bootstrap]
        command += ["--listen", "127.0.0.1:0", "--control", "0"]
        command += ["--upstream-ca", str(authority), "--tls-cert", str(chain)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            address = process.stderr.readline().split()[2]
            control = control_told(process.stderr.readline())
            assert control.ask("POST", "/topics", {"name": "orders"})[0] == 201
            assert [row["topic"] for row in control.ask("GET", "/topics")[1]["topics"]] == [
                "orders"
            ]
            security = ClientSecurity(certificates.client_context())
            with BlockingClient(address, security=security) as client:
                assert [topic.name for topic in client.refresh(["orders"]).topics] == ["orders"]
            assert control.ask("DELETE", "/topics/orders")[0] == 204
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
        encrypted.stop()
    assert process.returncode == 0


@pytest.mark.parametrize("text", ["", "9092", "host:", "host:99999", ":1"])
def test_wrong_address_to_listen_on_is_refused(text):
    with pytest.raises(UserError, match="cannot listen"):
        proxy_process.listen_address(text)
    assert proxy_process.listen_address("[::1]:0") == Address("::1", 0)


def test_unusable_files_are_refused(tmp_path):
    missing, wrong = tmp_path / "missing", tmp_path / "wrong.pem"
    wrong.write_text("no certificate")
    with pytest.raises(UserError, match="cannot read the plan"):
        find_plan(missing)
    with pytest.raises(UserError, match="cannot read"):
        proxy_process.listening_tls(missing, None)
    with pytest.raises(UserError, match="cannot use TLS"):
        proxy_process.listening_tls(wrong, None)
    with pytest.raises(UserError, match="cannot use TLS"):
        proxy_process.upstream_tls(wrong, None, None)
    wrong.write_text("[[rules]]\nx = 1\n")
    with pytest.raises(UserError, match=r"wrong\.pem:2:1"):
        find_plan(wrong)


def test_proxy_in_front_of_itself_is_refused():
    address = Address("127.0.0.1", 1)
    with pytest.raises((UserError, OSError)):
        proxy_process.serve_proxy(ProxySettings([address], address), FaultSet(), print)
