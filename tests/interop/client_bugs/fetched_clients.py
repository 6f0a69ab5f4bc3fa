"""Clients by version, each fetched once into a folder of its own, and the commands that run a program with one."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.interop.apache_kafka import CACHE, SHORT_LIVED, fetched
from tests.interop.client_bugs.table import ClientBug
from tests.interop.suites import javascript
from tests.interop.suites.building import command

PROGRAMS = Path(__file__).parent / "programs"
NEEDED = {".js": "npm", ".go": "go", ".java": "mvn"}
GO_MOD = "module bug\n\ngo 1.21\n"


def why_not(bug: ClientBug) -> str | None:
    """Returns the reason why the client cannot be fetched here; None if it can."""
    tool = NEEDED.get(Path(bug.program).suffix)
    return None if tool is None or shutil.which(tool) else f"needs {tool} on the PATH"


def run_with(bug: ClientBug, version: str, folder: Path, *arguments: str) -> str:
    """Returns the line that the program prints with a version of the client; `folder` is an empty one."""
    made = {".py": _python, ".js": _javascript, ".java": _java, ".go": _go}
    words = made[Path(bug.program).suffix](bug, version, folder)
    return command(*words, *arguments, folder=folder).strip()


def _name(bug: ClientBug, version: str) -> str:
    return f"{bug.client.rpartition('/')[2]}-{version}"


def _python(bug: ClientBug, version: str, _: Path) -> list[str]:
    """Makes an environment of the client alone, since this one has another version of it."""
    environment = CACHE / "client-bugs" / _name(bug, version)
    program = environment / "bin" / "python"
    complete = environment / "complete"
    if not complete.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
        pip = [program, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, f"{bug.client}=={version}"], check=True)
        complete.touch()
    return [str(program), str(PROGRAMS / bug.program)]


def _javascript(bug: ClientBug, version: str, folder: Path) -> list[str]:
    javascript.link_modules(f"client-bugs/{_name(bug, version)}", f"{bug.client}@{version}", folder)
    shutil.copy(PROGRAMS / bug.program, folder)
    return ["node", bug.program]


def _java(bug: ClientBug, version: str, _: Path) -> list[str]:
    wanted = (
        ("org.apache.kafka", bug.client, version),
        ("org.slf4j", "slf4j-simple", "1.7.36"),
    )
    jars = fetched(f"client-bugs/{_name(bug, version)}", wanted)
    options = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=off", *SHORT_LIVED]
    return ["java", *options, "-cp", f"{jars}/*", str(PROGRAMS / bug.program)]


def _go(bug: ClientBug, version: str, folder: Path) -> list[str]:
    """Builds in a folder of the cache, so that a second run compiles nothing."""
    built = CACHE / "client-bugs" / f"{_name(bug, version)}-{bug.program.removesuffix('.go')}"
    if not (built / "program").exists():
        built.mkdir(parents=True, exist_ok=True)
        source = (PROGRAMS / bug.program).read_text()
        # Releases before 1.40 have the name of an earlier owner.
        module = bug.client
        if module == "github.com/IBM/sarama" and _number(version) < (1, 40):
            module = "github.com/Shopify/sarama"
        (built / "main.go").write_text(source.replace(bug.client, module))
        (built / "go.mod").write_text(GO_MOD)
        command("go", "mod", "edit", f"-require={module}@v{version}", folder=built)
        command("go", "mod", "tidy", folder=built)
        command("go", "build", "-o", "program", ".", folder=built)
    return [str(built / "program")]


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))
