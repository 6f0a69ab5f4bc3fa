"""The text of an address, and that no other code writes one."""

import re

import pytest

from tests.test_tidy import ROOT, sources
from trimaran.wire.client.bootstrap import parse_bootstrap
from trimaran.wire.identity import Address

ROOMS = (
    "broker",
    "distributions",
    "log",
    "node",
    "quorum",
    "spark",
    "trimaran",
    "wire",
    "zkcompat",
)
_PAIR = re.compile(
    r"\{[\w.]*\bhost\}:\{[\w.]*\bport\}|\{[\w.]*\[0\]\}:\{[\w.]*\[1\]\}|\"\[\{[\w.]*host\}\]"
)
# The class itself, and a host that the shell of a pod inserts: `$HOSTNAME.…`.
OTHERS = {"wire/identity.py", "trimaran/deployment/kubernetes.py"}


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (Address("kafka.example", 9092), "kafka.example:9092"),
        (Address("10.0.0.1", 0), "10.0.0.1:0"),
        (Address("::1", 9092), "[::1]:9092"),
        (Address("fe80::1%eth0", 65535), "[fe80::1%eth0]:65535"),
    ],
)
def test_text_of_address_has_brackets_for_ipv6(address, text):
    assert str(address) == f"{address}" == text


def test_text_of_address_is_read_back_as_bootstrap():
    addresses = [Address("::1", 9092), Address("fd00::a:1", 1), Address("kafka", 2)]
    assert parse_bootstrap(",".join(map(str, addresses))) == addresses


def test_no_code_joins_host_and_port():
    found = {
        str(path.relative_to(ROOT)) for path in sources(*ROOMS) if _PAIR.search(path.read_text())
    }
    assert found == OTHERS
