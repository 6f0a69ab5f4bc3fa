"""A third-party suite names each program that it runs, and does not start if one of them is missing."""

import ast
import sys

import pytest

from tests.interop.suites import __main__ as command_line
from tests.interop.suites import building, kafka_home, sources
from tests.interop.suites.clusters import KINDS
from tests.interop.suites.registry import SUITES
from tests.interop.suites.variants import VARIANTS

PACKAGE = command_line.__package__
MODULES = [suite for suite in SUITES if hasattr(suite, "__file__")]
RUNS = {"command", "Popen", "run"}
WITH_APT = {"dpkg"}  # not run if apt-get is missing


def modules(name, found):
    """Adds a module of the suites, and those that it imports, to `found`: their syntax trees by name."""
    if name in found or not name.startswith(f"{PACKAGE}.") or name not in sys.modules:
        return found
    file = sys.modules[name].__file__
    with open(file, encoding="utf-8") as text:
        found[name] = ast.parse(text.read())
    for node in ast.walk(found[name]):
        if isinstance(node, ast.ImportFrom):
            modules(node.module, found)
            for imported in node.names:
                modules(f"{node.module}.{imported.name}", found)
    return found


def programs(tree):
    """Returns the programs on the PATH that a module runs by name, by `command("make", …)` or `run(["make", …])`."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    words = [
        call.args[0].elts[0] if isinstance(call.args[0], ast.List | ast.Tuple) else call.args[0]
        for call in calls
        if getattr(call.func, "attr", getattr(call.func, "id", "")) in RUNS
    ]
    names = {word.value for word in words if isinstance(word, ast.Constant)}
    return {name for name in names - WITH_APT if "/" not in name}


@pytest.mark.parametrize("suite", MODULES, ids=lambda one: one.NAME)
def test_suites_need_each_program_they_run(suite):
    found = modules(suite.__name__, {})
    needed = {program for tree in found.values() for program in programs(tree)}
    if kafka_home.__name__ in found:
        needed |= set(kafka_home.NEEDS)
    assert needed - set(suite.NEEDS) == set()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suite", [*SUITES, *VARIANTS], ids=lambda one: one.NAME)
def test_suites_without_their_requirements_are_refused(suite, kind, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(sources.VARIABLE, raising=False)
    with pytest.raises(SystemExit) as refused:
        command_line.main([suite.NAME, kind])
    assert refused.value.code == 1
    said = capsys.readouterr().err
    needs = {*suite.NEEDS, *(kafka_home.NEEDS if kind == "kafka" else ())}
    assert [program for program in needs if program not in said] == []
    assert needs or f"/{suite.SOURCES}" in said


def test_changes_of_text_that_is_gone_fail(tmp_path):
    (tmp_path / "a.go").write_text("Flush(-1); Flush(-1)")
    building.change(tmp_path, [("a.go", "Flush(-1)", "Flush(60000)")])
    assert (tmp_path / "a.go").read_text() == "Flush(60000); Flush(60000)"
    with pytest.raises(AssertionError, match="has no Flush"):
        building.change(tmp_path, [("a.go", "Flush(-1)", "Flush(60000)")])
