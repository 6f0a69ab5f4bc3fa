"""Hypothesis profiles, the distribution of tests to workers, a check that nothing is written outside of tests, and the
switch of the interop tests.

`deterministic`, for every commit: the same thirty examples each time, because with five of them a rule could be removed
without a failing test. `exhaustive`, by `./dev test --exhaustive`: many times as many, different ones each time.
"""

import gc
import logging
import os
import re
import signal
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from tests import own_output
from tests.interop import kills
from tests.interop.suites import results, sources

SPARK = "tests/spark/"
USES_SESSION = re.compile(r'def \w+\([^)]*\bspark\b|usefixtures\("spark"\)')

settings.register_profile(
    "deterministic",
    max_examples=30,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "exhaustive",
    max_examples=500,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
# Containers often set it. Each worker would compile all tests, and each process that a test starts all of the product.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

if "PYTEST_XDIST_WORKER" in os.environ:
    gc.disable()  # until all tests are collected, because an eighth of that time would be the collector's
    # In the background or under nohup they are ignored, and every process that a test starts would inherit that.
    for number, default in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, default)

settings.load_profile("deterministic")  # --hypothesis-profile loads another one after this


def pytest_configure(config):
    if named := config.getoption("--sources"):
        os.environ[sources.VARIABLE] = named
    os.environ.setdefault(kills.MINUTES, str(config.getoption("--minutes")))
    config.option.loadscopereorder = False  # the order is that of `_longest_first`
    own_output.watch(config)
    # Without any handler Python writes a warning to standard error. Within tests pytest has its own handlers.
    logging.getLogger().addHandler(logging.NullHandler())


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown():
    """Fails if a test leaves a handler at the root logger. It would write to that test's standard error, which is
    closed, and the output of a later test would have Python's report of the failed write.
    """
    for handler in logging.getLogger().handlers:
        assert (
            not isinstance(handler, logging.StreamHandler) or "pytest" in type(handler).__module__
        ), handler


@pytest.fixture(scope="session", autouse=True)
def home_of_configuration(tmp_path_factory):
    """Clusters of tests write their profile here, not into the user's home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


def pytest_addoption(parser):
    parser.addoption(
        "--interop",
        action="store_true",
        help="run the tests against Apache Kafka (needs java and mvn)",
    )
    parser.addoption(
        "--minutes",
        type=float,
        default=1.0,
        help="how long each interop test runs in which nodes die all the time (1)",
    )
    parser.addoption(
        "--kills",
        type=int,
        default=4,
        help="how many nodes are killed in each interop test of a mixed cluster (4)",
    )
    parser.addoption(
        "--record",
        action="store_true",
        help="keep what tests with clients say, for docs/compatibility.md",
    )
    parser.addoption(
        "--sources",
        metavar="FOLDER",
        help="checkouts of suites of others that no package carries, each in a folder of its name",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """`client(NAME, WHAT)` marks a test of a client; its version is the mark's, or the test's `version`. Reports of a
    client's test against Apache Kafka are not kept: they verify the test itself.
    """
    report = yield
    params = item.callspec.params if hasattr(item, "callspec") else {}
    if item.config.getoption("--record") and (call.when == "call" or report.failed):
        for mark in () if params.get("bootstrap") == "kafka" else item.iter_markers("client"):
            version = mark.kwargs.get("version") or params["version"]
            results.keep_client(mark.args[0], version, mark.args[1], item.nodeid, report.outcome)
    return report


def _scope(nodeid):
    """The unit that one worker runs: a file, or all files that use Spark's session, because starting it takes longer
    than most of them. The process that schedules knows the names of tests only, so it looks into their files.
    """
    file = nodeid.partition("::")[0]
    return SPARK if file.startswith(SPARK) and _uses_session(file) else file


@cache
def _uses_session(file):
    return USES_SESSION.search((Path(__file__).parent.parent / file).read_text()) is not None


class Scheduling(LoadFileScheduling):
    def _split_scope(self, nodeid):
        return _scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return Scheduling(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """Returns one more than the cores: a test that starts processes leaves a third of a core unused."""
    return len(os.sched_getaffinity(0)) + 1


# Approximate seconds of a test: one that starts processes, one that is marked slow without a number, and any other.
# Tests that take minutes begin first, so that no worker is left with one at the end.
SECONDS_OF_CLUSTER, SECONDS_OF_SLOW, SECONDS_OF_TEST = 3.0, 1.0, 0.03


def _seconds(item):
    if item.get_closest_marker("interop"):
        return 0.0
    slow = item.get_closest_marker("slow")
    if slow and slow.kwargs:
        return slow.kwargs["seconds"]
    if item.get_closest_marker("cluster"):
        return SECONDS_OF_CLUSTER
    return SECONDS_OF_SLOW if slow else SECONDS_OF_TEST


def _longest_first(items):
    """Workers take scopes in the order of the collection."""
    seconds = Counter()
    for item in items:
        seconds[_scope(item.nodeid)] += _seconds(item)
    items.sort(key=lambda item: -seconds[_scope(item.nodeid)])


def pytest_collection_modifyitems(config, items):
    if "PYTEST_XDIST_WORKER" in os.environ:
        _longest_first(items)
    reason = _why_no_interop(config)
    if reason is None:
        return
    for item in items:
        if item.get_closest_marker("interop"):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish():
    """Freezes the tests for the garbage collector, which would otherwise examine 600,000 objects in 0.3 s."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        gc.freeze()
        gc.enable()


def _why_no_interop(config):
    if not config.getoption("--interop"):
        return "against Apache Kafka: run ./dev interop"
    from tests.interop.apache_kafka import why_not

    return why_not()
