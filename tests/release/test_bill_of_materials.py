"""The bill of materials of both distributions, made from what is installed and from `constraints.txt`."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from release.bill_of_materials import bill, pins
from release.changelog import ReleaseRefused

LOCKED = pins(Path(__file__).resolve().parents[2].joinpath("constraints.txt").read_text())
AT = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def found():
    return json.loads(bill("trimaran", "0.2.0", LOCKED, AT))


def test_bill_names_each_package_as_locked(found):
    versions = {each["name"]: each["version"] for each in found["components"]}
    assert versions == {name: LOCKED[name] for name in versions}
    assert {"trio", "kazoo", "pyspark", "jinja2", "cffi"} <= versions.keys()
    assert not {"pytest", "ruff", "cython", "sphinx", "kafka-python"} & versions.keys()
    own = found["metadata"]["component"]
    assert (own["name"], own["version"]) == ("trimaran", "0.2.0")


def test_bill_says_which_package_needs_which(found):
    needs = {each["ref"]: each.get("dependsOn", []) for each in found["dependencies"]}
    names = {each["bom-ref"] for each in found["components"]}
    assert {other for others in needs.values() for other in others} == names
    assert f"cffi@{LOCKED['cffi']}" in needs[f"cryptography@{LOCKED['cryptography']}"]


def test_bill_has_licenses(found):
    (trio,) = [each for each in found["components"] if each["name"] == "trio"]
    assert trio["licenses"] == [{"expression": "MIT OR Apache-2.0"}]


def test_bill_is_the_same_each_time(found):
    assert json.loads(bill("trimaran", "0.2.0", LOCKED, AT)) == found


def test_bill_of_plugin_names_trimaran_itself():
    plugin = json.loads(bill("pytest-trimaran", "0.2.0", LOCKED, AT))
    versions = {each["name"]: each["version"] for each in plugin["components"]}
    assert versions["trimaran"] == "0.2.0"
    assert versions["pytest"] == LOCKED["pytest"]


def test_package_without_locked_version_is_refused():
    fewer = {name: version for name, version in LOCKED.items() if name != "trio"}
    with pytest.raises(ReleaseRefused, match=r"no version of trio: add it"):
        bill("trimaran", "0.2.0", fewer, AT)
