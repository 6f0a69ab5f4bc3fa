"""Headers of every response of the console, and its refusals."""

import pytest

from tests.checks import check_each
from trimaran.console.guards import host_of
from trimaran.console.serving import csv_of


def test_foreign_host_names_are_refused(browser):
    """A foreign page with a name that resolves to us reads nothing (DNS rebinding)."""
    assert browser.get("/topics", Host="evil.example").status == 421
    assert browser.get("/static/console.css", Host="evil.example:8090").status == 421
    assert browser.get("/topics", Host="LOCALHOST:8090").status == 200


def test_foreign_scripts_and_frames_are_blocked(browser):
    def check(path):
        headers = browser.get(path).headers
        policy = headers["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "default-src 'none';" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"

    check_each(["/", "/topics", "/nowhere", "/static/console.js"], check)


def test_read_only_console_serves_only_get(browser):
    assert browser.get("/topics", method="POST", body="name=x").status in (404, 405)


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("127.0.0.1:8090", "127.0.0.1"),
        ("[::1]:8090", "::1"),
        ("Localhost", "localhost"),
        ("", ""),
        ("[::1", "::1"),
        ("evil.example:80", "evil.example"),
    ],
)
def test_host_header_is_reduced_to_name(header, host):
    assert host_of(header) == host


def test_formulas_stay_text_in_csv():
    rows = [
        {"group": "=cmd|'/c calc'!A1", "lag": -1, "isr": [1, 2]},
        {"group": "a", "lag": None, "isr": []},
    ]
    assert csv_of({"rows": rows}).splitlines() == [
        "group,lag,isr",
        "'=cmd|'/c calc'!A1,-1,1 2",
        "a,,",
    ]
    assert csv_of({}) == ""
