"""`up --console` and `console` as processes: they serve pages, print their address, and end with the process that
started them.
"""

import json
import re
import signal
import subprocess
import sys
import urllib.request

from tests.cluster.processes import ROOT, LocalCluster, trimaran, until
from trimaran.errors.user_error import Exit

SMALL = ("--controllers", "1", "--brokers", "1")


def page(url):
    request = urllib.request.Request(url, headers={"Accept": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


def test_local_cluster_console_starts_and_ends_with_it(tmp_path):
    with LocalCluster(tmp_path, *SMALL, "--console", "--metrics") as cluster:
        assert page(cluster.started["console"])["level"] == "good"
        assert page(f"{cluster.started['console']}metadata")["summary"]["topics"] == 0
        charts = f"{cluster.started['console']}charts"
        until(lambda: page(charts)["charts"], "the metrics of its nodes are drawn")
        cluster.run("chaos", "kill", "console")
        cluster.run("chaos", "restart", "console")
        until(lambda: cluster.state.node("console").state == "running", "it serves again")
        assert page(cluster.started["console"])["level"] == "good"
        cluster.run("down")
        assert {node.pid for node in cluster.state.nodes} == {None}


def test_console_serves_until_stopped(tmp_path):
    command = [sys.executable, "-m", "trimaran", "console", "-b", "127.0.0.1:1", "--listen"]
    with subprocess.Popen(
        [*command, "127.0.0.1:0"], cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as running:
        said = running.stderr.readline()
        url = re.search(r"http://127\.0\.0\.1:\d+/", said)[0]
        taken = url.removeprefix("http://").rstrip("/")
        again = trimaran("console", "-b", "127.0.0.1:1", "--listen", taken, check=False)
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0
    assert again.returncode == Exit.NO
    assert f"cannot listen on {taken}" in again.stderr


def test_invalid_console_arguments_are_refused_before_serving():
    for words in (("-b", "nonsense:port"), ("-b", "a:1", "--listen", "here")):
        done = trimaran("console", *words, check=False)
        assert done.returncode == Exit.USAGE
        assert done.stderr.startswith("error: ")
