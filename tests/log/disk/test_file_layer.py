"""All disk access of `log` goes through `log/disk/files.py`: tests that record, fail or crash files replace that one
object.
"""

import ast
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "log"
LAYER = {"files.py", "syncing.py"}  # this module passes descriptors of `Files` to the kernel
MODULES = {"os", "shutil", "fcntl", "mmap", "tempfile", "glob"}
PATH_METHODS = {
    "chmod", "exists", "glob", "is_dir", "is_file", "is_symlink", "iterdir", "lstat", "mkdir", "read_bytes",
    "read_text", "rename", "resolve", "rglob", "rmdir", "stat", "symlink_to", "touch", "unlink", "write_bytes",
    "write_text",
}  # fmt: skip
RECEIVERS = {"files", "_files", "REAL_FILES"}


def trespasses(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [f"{node.lineno}: import {a.name}" for a in node.names if a.name in MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            found.append(f"{node.lineno}: from {node.module}")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found += [f"{node.lineno}: open()"] if node.func.id == "open" else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            receiver = node.func.value
            name = receiver.attr if isinstance(receiver, ast.Attribute) else ast.unparse(receiver)
            if node.func.attr in PATH_METHODS and name not in RECEIVERS:
                found.append(f"{node.lineno}: {ast.unparse(node.func)}")
    return found


def test_only_the_file_layer_touches_the_disk():
    others = [path for path in sorted(FOLDER.rglob("*.py")) if path.name not in LAYER]
    found = {path.relative_to(FOLDER).as_posix(): trespasses(path.read_text()) for path in others}
    assert others
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "source", ["import os", "from mmap import mmap", "open(p)", "path.stat()", "(a / b).unlink()"]
)
def test_direct_disk_access_is_detected(source):
    assert trespasses(source)


def with_own_fdatasync(source: str) -> dict[str, bool]:
    """Returns the classes of files with an `fdatasync` of their own, and whether each sets `kernel_syncs` to
    False.
    """
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and any(
            ast.unparse(base) == "Files" for base in node.bases
        ):
            body = [ast.unparse(statement) for statement in node.body]
            if any(
                isinstance(entry, ast.FunctionDef) and entry.name == "fdatasync"
                for entry in node.body
            ):
                found[node.name] = "kernel_syncs = False" in body
    return found


def test_kernel_skips_files_with_own_sync():
    sources = (path.read_text() for path in FOLDER.parent.glob("[!.]*/**/*.py"))
    found = {}
    for source in sources:
        if "(Files)" in source:
            found.update(with_own_fdatasync(source))
    assert {"FaultyFiles", "SimDisk"} <= set(found)
    assert [name for name, kept_away in found.items() if not kept_away] == []
