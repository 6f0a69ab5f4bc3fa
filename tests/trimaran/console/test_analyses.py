"""Analyses from the console: the right to start one, one at a time, and the display of a report."""

import os
import re
import sys
from urllib.parse import urlencode

import pytest
import trio
import trio.testing

from tests.trimaran.console.conftest import console_before
from trimaran.console import analyses as analyses_module
from trimaran.console.analyses import Analyses, command_of, report_of
from trimaran.console.cluster import ConsoleCluster
from trimaran.console.login import ConsoleLogin
from trimaran.errors.user_error import UserError

FORM = "application/x-www-form-urlencoded"
HTML = '<script src="plotly.min.js"></script><p>verdict</p>'


@pytest.fixture(scope="module")
def local(kafka, tmp_path_factory):
    """Returns a console of a local cluster, and its directory with one report."""
    data = tmp_path_factory.mktemp("data")
    index = report_of(data, "consumer_lag")
    index.parent.mkdir(parents=True)
    index.write_text(HTML)
    (data / "report" / "secret").mkdir()
    (data / "report" / "secret" / "index.html").write_text("secret")
    with console_before(ConsoleCluster(kafka.bootstrap, data=data)) as browser:
        yield browser


def test_report_is_shown_in_a_sandbox(local):
    shown = local.get("/analyses/report/consumer_lag")
    assert shown.body == HTML.replace("plotly", "/plotly")
    policy = shown.headers["content-security-policy"]
    assert "sandbox allow-scripts allow-downloads" in policy
    assert "allow-same-origin" not in policy
    assert "connect-src" not in policy
    assert "default-src 'none'" in policy
    assert 'href="/analyses/report/consumer_lag"' in local.get("/analyses").body


def test_only_reports_of_analyses_are_shown(local, browser):
    for name in ("secret", "throughput", "..%2f..%2fetc", "nothing"):
        assert local.get(f"/analyses/report/{name}").status == 404
    assert local.get("/analyses/report").status == 404
    assert browser.get("/analyses/report/consumer_lag").status == 404


def test_plotly_is_public_reports_need_login(kafka, tmp_path):
    with console_before(
        ConsoleCluster(kafka.bootstrap, data=tmp_path), login=ConsoleLogin("x" * 12)
    ) as asking:
        library = asking.get("/plotly.min.js")
        assert library.status == 200
        assert library.headers["cross-origin-resource-policy"] == "cross-origin"
        assert asking.get("/analyses/report/consumer_lag").status == 303


def test_forms_start_only_existing_analyses(local, browser):
    def start(of, name, token):
        body = urlencode({"token": token})
        return of.get(f"/analyses/{name}", method="POST", body=body, Content_Type=FORM)

    token = re.search(r'name="token" value="([^"]+)"', local.get("/analyses").body)[1]
    assert start(local, "consumer_lag", "guessed").status == 403
    assert start(local, "nothing", token).status == 400
    assert local.json("/analyses")["run"] is None
    # Without a local cluster there are no logs: the page says so, and has no buttons.
    assert browser.json("/analyses")["missing"]["what"].startswith(
        "the console cannot read the logs"
    )
    assert "<button" not in browser.get("/analyses").body.partition("<main")[2]


def test_missing_spark_names_the_package(monkeypatch, kafka, tmp_path):
    monkeypatch.setattr(analyses_module, "is_installed", lambda: False)
    with console_before(ConsoleCluster(kafka.bootstrap, data=tmp_path)) as asking:
        assert asking.json("/analyses")["missing"]["fix"] == "pip install 'trimaran[spark]'"


def test_analysis_runs_trimarans_command(tmp_path):
    assert command_of(tmp_path, "consumer_lag")[1:4] == ("-m", "trimaran", "analyze")


def python(code):
    return lambda data, name: (sys.executable, "-c", code)


@pytest.mark.parametrize(
    ("code", "failed"),
    [
        ("", ""),
        ("import sys; sys.exit('no logs')", "no logs"),
        ("raise SystemExit(3)", "exit code 3"),
    ],
)
async def test_outcome_of_analysis_is_shown(tmp_path, code, failed):
    analyses = Analyses(tmp_path, python(code))
    assert analyses.last() is None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(analyses.serve)
        await trio.testing.wait_all_tasks_blocked()
        analyses.start("consumer_lag")
        with trio.fail_after(60):
            while not analyses.last() or not analyses.last().is_over:
                await trio.lowlevel.checkpoint()
        assert analyses.last().failed == failed
        nursery.cancel_scope.cancel()


async def test_one_analysis_runs_and_ends_with_console(tmp_path):
    told = tmp_path / "pid"
    code = f"import os, pathlib, signal; pathlib.Path({str(told)!r}).write_text(str(os.getpid())); signal.pause()"
    analyses = Analyses(tmp_path, python(code))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(analyses.serve)
        await trio.testing.wait_all_tasks_blocked()
        analyses.start("consumer_lag")
        with trio.fail_after(60):
            while not told.exists() or not told.read_text():
                await trio.lowlevel.checkpoint()
        with pytest.raises(UserError, match="throughput was not started"):
            analyses.start("throughput")
        assert not analyses.last().is_over
        nursery.cancel_scope.cancel()
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)


def test_nothing_starts_without_directory():
    with pytest.raises(UserError, match="cannot read the logs"):
        Analyses(None).start("consumer_lag")
