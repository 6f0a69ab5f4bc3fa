"""The extras with which trimaran is installed in parts, and the error if one is missing."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from trimaran.cli import app, doctor
from trimaran.errors import extras
from trimaran.errors.user_error import UserError

ROOT = Path(__file__).resolve().parents[3]
# extras for developing trimaran itself, and the sum of the others
NOT_LISTED = {"all", "dev", "docs", "fuzz", "release"}


def declared():
    """Returns the names of the packages of each extra, in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {
        extra: {re.match(r"[\w.-]+", line)[0].lower() for line in lines}
        for extra, lines in project["optional-dependencies"].items()
        if extra not in NOT_LISTED
    }


def test_table_names_every_extra_of_package():
    assert set(extras.EXTRAS) == set(declared())


def test_doctor_checks_packages_of_every_extra(monkeypatch):
    def missing(name):
        raise doctor.PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "version", missing)
    found = {item.check: item for item in doctor.packages()}
    for extra, packages in declared().items():
        finding = found[f"trimaran[{extra}]"]
        named = finding.found.removeprefix("not installed: ").split(", ")
        assert {name.lower() for name in named} == packages
        assert finding.fix.endswith(f"pip install 'trimaran[{extra}]'")
    assert found["trio"].level == "fail"


def test_each_module_comes_with_its_extra():
    brought = packages_distributions()
    for module, extra in extras.MODULES.items():
        # The module of an extra that is not installed here has the name of its package; py4j comes with PySpark.
        distributions = {name.lower() for name in brought.get(module, [module])} | {module}
        assert distributions & (declared()[extra] | {"py4j"}), module


def test_missing_module_of_extra_names_the_extra(monkeypatch, capsys):
    def command(_arguments):
        raise ModuleNotFoundError("No module named 'kazoo'", name="kazoo.client")

    monkeypatch.setattr(app, "_call", command)
    with pytest.raises(SystemExit) as ended:
        app.run(["zk", "status"])
    assert ended.value.code == 1
    shown = capsys.readouterr().err
    assert "pip install 'trimaran[zk]'" in shown
    assert "bug in trimaran" not in shown


def test_other_missing_module_is_a_bug():
    assert extras.of_missing_module(ModuleNotFoundError("x", name="trimaran.nothing")) is None
    assert extras.of_missing_module(ModuleNotFoundError("x")) is None
    assert isinstance(extras.of_missing_module(ModuleNotFoundError("x", name="jwt")), UserError)


def test_demo_names_its_extra_if_missing(tmp_path):
    """A folder that is first on the path has a file `confluent_kafka.py` that cannot be imported."""
    (tmp_path / "confluent_kafka.py").write_text("raise ModuleNotFoundError('no', name=__name__)\n")
    command = [sys.executable, "-m", "trimaran.demo"]
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "  fix: pip install 'trimaran[demo]'"
