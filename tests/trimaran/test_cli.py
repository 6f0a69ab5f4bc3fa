import importlib
import inspect
import os
import re
import subprocess
import sys

import pytest

from tests.checks import check_each
from trimaran.cli.app import build
from trimaran.cli.commands import COMMANDS, NOUNS, WATCHED
from trimaran.errors.user_error import Exit


def run(*words, **variables):
    return subprocess.run(
        [sys.executable, "-m", "trimaran", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )


def function_of(where):
    module, _, function = where.partition(":")
    return getattr(importlib.import_module(module), function)


def test_every_command_exists_with_documentation():
    assert [where for _, where, *_ in COMMANDS if not function_of(where).__doc__] == []


def test_help_shows_command_fully_and_others_briefly():
    """Every other command has one line in a list."""
    whole = run("health", "--help").stdout
    assert "A cluster is healthy if a majority of the voters has caught up" in " ".join(
        whole.split()
    )
    assert "majority" not in run("--help").stdout


def unexplained(words, where):
    """Returns parameters of a command that its help would only name."""
    explained = set(
        re.findall(r"^ {4}(\w+):", inspect.getdoc(function_of(where)) or "", re.MULTILINE)
    )
    command = build(words)
    for word in words:
        command = command[word]
    return [
        f"{' '.join(words)} {argument.names[0]}"
        for argument in command.assemble_argument_collection()
        if argument.show
        and not argument.parameter.help
        and argument.field_info.name not in explained
    ]


def test_every_parameter_is_explained():
    assert [
        parameter for words, where, _ in COMMANDS for parameter in unexplained(words, where)
    ] == []


def test_command_named_in_help_exists():
    """An example is `trimaran up -d`."""
    known = {" ".join(words) for words, *_ in COMMANDS}
    for words, where, _ in COMMANDS:
        text = " ".join((function_of(where).__doc__ or "").split())
        for named in re.findall(r"\btrimaran ([a-z][a-z-]*(?: [a-z][a-z-]*)?)", text):
            assert {named, named.split()[0]} & known, f"{' '.join(words)} names trimaran {named}"


def test_every_noun_has_verbs_and_reverse():
    assert {" ".join(words[:-1]) for words, *_ in COMMANDS if len(words) > 1} == set(NOUNS)


# Verbs, and commands without one, that change neither a cluster nor a file.
READS = {
    *("cat", "check", "decode", "describe", "diff", "dump", "effective", "explain", "find"),
    *("get", "hanging", "history", "image", "info", "init", "lag", "list", "ls", "plan"),
    *("random-uuid", "replication", "shell", "show", "status", "tail", "tree", "verify"),
    *("consume", "doctor", "health", "log-dirs", "metrics", "ps", "sql", "version"),
}
# Commands that change something or keep running and have no dry run, and the reason.
NOT_TRIED_OUT = {
    (
        "controller",
        "start",
    ): "runs the node in this process; `config check` says what it would refuse",
    ("broker", "start"): "as a controller",
    ("server", "start"): "as a controller",
    ("zk", "start"): "runs ZooKeeper in this process",
    (
        "zk",
        "mirror",
    ): "runs the mirror in this process; `zk resync --dry-run` says what it would write",
    ("console",): "runs the console in this process, and changes nothing by itself",
    ("proxy",): "runs the proxy in this process, and changes nothing by itself",
    ("produce",): "the records come from a pipe, which is read once",
    ("bench", "produce"): "a load that is not put on measures nothing",
    ("bench", "consume"): "only reads, without a group",
    ("analyze",): "writes a report, and nothing else",
}


def test_every_command_that_writes_can_be_tried_out():
    """A new command has `--dry-run`, is listed here as read-only, or has a reason."""
    without = {
        words
        for words, where, _ in COMMANDS
        if "dry_run" not in inspect.signature(function_of(where)).parameters
    }
    assert without & NOT_TRIED_OUT.keys() == NOT_TRIED_OUT.keys()
    reads = {words for words in without if words[-1] in READS or words[0] == "generate"}
    assert without - NOT_TRIED_OUT.keys() - reads == set()
    assert {words[-1] for words in reads} >= READS, "a verb that is gone"


def test_watched_commands_have_no_own_interval():
    functions = {words: where for words, where, _ in COMMANDS}
    assert functions.keys() >= WATCHED
    own = {
        words for words in WATCHED
        if "watch" in inspect.signature(function_of(functions[words])).parameters
    }  # fmt: skip
    assert own == set()


def test_every_cluster_command_accepts_connection_options():
    check_each([where for _, where, *_ in COMMANDS], can_be_told_how)


def can_be_told_how(where):
    parameters = inspect.signature(function_of(where)).parameters
    given = {parameter.annotation for parameter in parameters.values()}
    # the mirror, which connects by itself, supports only plain text; `Brokers` documents both
    is_plain = bool(given & {"Bootstrap", "ControllerBootstrap"}) and "Brokers" not in given
    assert "zk" in where.partition(":")[0] or not is_plain


def test_command_tree_can_be_built():
    assert build().name == ("trimaran",)


def modules_loaded_by(*words):
    """Returns the modules that a command executes, without those that are only found for later."""
    probe = (
        "import atexit, sys\n"
        "from trimaran.cli import main\n"
        "loaded = lambda: [name for name, m in sys.modules.items() if type(m).__name__ != '_LazyModule']\n"
        "atexit.register(lambda: print(*sorted(loaded()), file=sys.stderr))\n"
        "main()"
    )
    command = [sys.executable, "-c", probe, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return set(done.stderr.splitlines()[-1].split()), done.returncode


# The product's modules that help executes: those of the command line, constants, and packages.
HELP_MODULES_MAX = {
    "": 12,
    "topics list": 25,
    "up": 32,
    "storage format": 30,
    "server start": 19,
}


@pytest.mark.parametrize("command", HELP_MODULES_MAX)
def test_help_loads_only_what_declares_arguments(command):
    loaded, code = modules_loaded_by(*command.split(), "--help")
    assert code == Exit.OK
    heavy = {"importlib.metadata", "kazoo", "plotly", "pyspark", "ssl", "trio", "urllib.request"}
    assert not loaded & (heavy | {"trimaran.wire.messages.registry", "javaproperties", "yaml"})
    own = {name for name in loaded if name.startswith("trimaran.")}
    assert len(own) <= HELP_MODULES_MAX[command], sorted(own)


def test_cluster_query_loads_only_what_it_needs():
    loaded, code = modules_loaded_by("topics", "list", "-b", "127.0.0.1:1")
    assert code == Exit.CANNOT_CONNECT
    assert "trimaran.wire.blocking" in loaded
    assert not loaded & {"javaproperties", "urllib.request", "trio", "rich.console", "yaml", "ssl"}


def test_command_without_address_loads_no_client(tmp_path):
    loaded, code = modules_loaded_by("topics", "list", "--data", str(tmp_path))
    assert code == Exit.USAGE
    assert not loaded & {"trimaran.wire.blocking", "trimaran.client.connect", "rich.console"}


def test_ps_loads_nothing_that_starts_cluster(tmp_path):
    loaded, code = modules_loaded_by("ps", "--data", str(tmp_path))
    assert code == Exit.USAGE
    probe = "import sys, trimaran.local.readiness; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    loaded |= set(done.stdout.split())
    assert "trimaran.wire.blocking" in loaded
    heavy = {"trio", "ssl", "javaproperties", "trimaran.node.config.server"}
    assert not loaded & (heavy | {"trimaran.local.growing"})


@pytest.mark.slow
def test_exit_codes_are_the_documented_ones(tmp_path):
    data = str(tmp_path)
    assert run("version").returncode == Exit.OK
    assert run("no-such-command").returncode == Exit.USAGE
    assert run("topics", "list", "--data", data).returncode == Exit.USAGE
    refused = run("topics", "list", "-b", "127.0.0.1:1")
    assert refused.returncode == Exit.CANNOT_CONNECT, refused.stderr


@pytest.mark.slow
def test_client_key_without_effect_is_reported(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("sasl.login.retry.backoff.ms=5\nacks=all\n")
    words = ("--command-config", str(file), "-X", "sasl.login.read.timeout.ms=5")
    done = run("topics", "list", "-b", "127.0.0.1:1", *words)
    assert done.returncode == Exit.CANNOT_CONNECT
    for key in ("sasl.login.retry.backoff.ms", "sasl.login.read.timeout.ms"):
        assert f"{key} has no effect here: an answer of" in done.stderr
    assert "acks" not in done.stderr


@pytest.mark.slow
def test_command_config_is_option_and_variable(tmp_path):
    wrong = tmp_path / "client.properties"
    wrong.write_text("security.protocol=TELEPATHY\n")
    by_option = run("topics", "list", "-b", "127.0.0.1:1", "--command-config", str(wrong))
    assert "TELEPATHY" in by_option.stderr
    assert by_option.stderr.startswith("error")
    by_variable = run("quorum", "status", "-B", "127.0.0.1:1", TRIMARAN_COMMAND_CONFIG=str(wrong))
    assert "TELEPATHY" in by_variable.stderr
    assert run("topics", "list", "-b", "127.0.0.1:1", TRIMARAN_COMMAND_CONFIG="").returncode == 3
    assert "--command-config" in run("topics", "list", "--help").stdout


@pytest.mark.slow
def test_errors_are_three_lines_without_a_traceback(tmp_path):
    done = run("ps", "--data", str(tmp_path))
    lines = done.stderr.splitlines()
    assert [line.split(":")[0].strip() for line in lines] == ["error", "why", "fix"]
    loud = run("ps", "-v", "--data", str(tmp_path))
    assert loud.returncode == done.returncode
    assert "Traceback" in loud.stderr
    assert loud.stderr.endswith(done.stderr)
    assert done.stdout == ""
