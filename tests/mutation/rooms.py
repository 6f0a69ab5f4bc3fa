"""The CI tests of a room: the folder that mirrors it, the tests that import its modules directly or through a helper in
the same folder, a few that exercise it through a whole broker, and the test of the documented bounds.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.source_files import source_file

ROOT = Path(__file__).resolve().parent.parent.parent
TESTS = Path("tests")
ANSWERS = "tests/broker/handlers/test_transcripts.py"
COORDINATORS = "tests/simulation/test_coordinators.py::test_rules_hold_for_every_seed"
BOUNDS = "tests/test_limits.py"
# Tests that exercise a room through other rooms: the quickest of those that serve requests.
BY_WAY_OF = {
    "broker/background": [
        "tests/broker/test_failing_moves.py",
        "tests/broker/test_log_directories.py",
    ],
    "broker/storage": [
        "tests/broker/test_failing_moves.py",
        "tests/broker/test_failed_directories.py",
    ],
    "broker/metadata": [ANSWERS],
    "broker/producing": [
        ANSWERS,
        "tests/broker/handlers/test_produce.py",
        "tests/broker/handlers/test_old_formats.py",
        "tests/broker/handlers/test_topic_access.py",
        "tests/broker/test_end_to_end.py",
        "tests/broker/test_transactions.py",
    ],
    "broker/transactions": [
        ANSWERS,
        "tests/broker/handlers/test_add_offsets_to_txn.py",
        "tests/broker/handlers/test_add_partitions_to_txn.py",
        "tests/broker/handlers/test_describe_transactions.py",
        "tests/broker/handlers/test_end_txn.py",
        "tests/broker/handlers/test_init_producer_id.py",
        "tests/broker/handlers/test_produce.py",
        "tests/broker/handlers/test_txn_offset_commit.py",
        "tests/broker/handlers/test_write_txn_markers.py",
        "tests/broker/test_transactions.py",
        COORDINATORS,
    ],
    "broker/sharing": [
        "tests/broker/handlers/test_share_fetch.py",
        "tests/broker/handlers/test_share_acknowledge.py",
    ],
    "broker/coordination": [ANSWERS, COORDINATORS],
    "broker/handlers": [
        "tests/broker/test_denied.py",
        "tests/broker/test_access_table.py",
        "tests/test_access.py",
        "tests/test_served_versions.py",
    ],
    "log/durability": ["tests/log/partitions"],
    "quorum/serving": ["tests/broker/handlers", "tests/quorum/controller/handlers"],
    "quorum/metadata/authorizer.py": [
        "tests/broker/test_denied.py",
        "tests/broker/test_access_table.py",
    ],
    "quorum": ["tests/quorum", "tests/simulation", "tests/model"],
    "quorum/controller": [
        "tests/quorum",
        "tests/simulation",
        "tests/model",
        "tests/test_access.py",
        "tests/test_served_versions.py",
    ],
    "wire/security": ["tests/wire/transport/test_tls.py", "tests/wire/transport/test_sasl.py"],
    "wire/messages": ["tests/wire"],
    "wire/records": ["tests/wire"],
    "zkcompat/sections": ["tests/zkcompat/mirroring/test_transcripts.py"],
    "zkcompat/zookeeper": ["tests/zkcompat/mirroring/test_transcripts.py"],
}
# These run unmutated code, check something else, or are the tests of this package.
NOT_THESE = ("tests/interop", "tests/chaos", "tests/fuzz", "tests/mutation", "tests/processes")


def imported(room: Path) -> Path:
    """Returns the path by which a room is imported, as in its code objects: `trimaran/log` for `log`."""
    linked = Path("trimaran", room)
    return linked if (ROOT / linked).exists() else room


def belonging_to(rooms: list[str]) -> list[str]:
    """Returns the folders and files for pytest that test these folders or files of the product. Raises: SystemExit: a
    folder or file has no tests.
    """
    found: dict[str, None] = {}
    for room in rooms:
        tests = [*_mirrored(Path(room)), *_by_way_of(Path(room)), *_importing(Path(room))]
        if not tests:
            raise SystemExit(
                f"no test belongs to {room}: no folder below tests/ mirrors it and none imports it; "
                "name its tests with --tests, or in BY_WAY_OF of tests/mutation/rooms.py"
            )
        found |= dict.fromkeys([*tests, BOUNDS])
    return [name for name in found if found.keys().isdisjoint(map(str, Path(name).parents))]


def _mirrored(room: Path) -> Iterator[str]:
    """Yields the test of the same name for a file, and the mirroring folder for a folder."""
    if room.suffix == "":
        if (ROOT / TESTS / room).is_dir():
            yield str(TESTS / room)
        return
    test = TESTS / room.parent / f"test_{room.name}"
    if (ROOT / test).is_file():
        yield str(test)


def _by_way_of(room: Path) -> Iterator[str]:
    """Returns the tests listed for the room, or for the nearest enclosing folder."""
    for folder in (room, *room.parents):
        if str(folder) in BY_WAY_OF:
            yield from BY_WAY_OF[str(folder)]
            return


def _importing(room: Path) -> Iterator[str]:
    name = ".".join(imported(room).with_suffix("").parts)
    for path in _test_files():
        if any(f"{module}.".startswith(f"{name}.") for module in _reached(path)):
            yield str(path)


@cache
def _test_files() -> list[Path]:
    paths = (path.relative_to(ROOT) for path in sorted((ROOT / TESTS).rglob("test_*.py")))
    return [path for path in paths if not str(path).startswith(NOT_THESE)]


@cache
def _reached(path: Path) -> frozenset[str]:
    """Returns the modules that a file imports, and those that the helpers in its own folder import."""
    found = _imported(path)
    beside = ".".join(path.parent.parts)
    for module in found & {
        f"{beside}.{helper.stem}" for helper in (ROOT / path.parent).glob("*.py")
    }:
        found |= _imported(Path(*module.split(".")).with_suffix(".py"))
    return found


@cache
def _imported(path: Path) -> frozenset[str]:
    found: set[str] = set()
    for node in source_file(ROOT / path).imports:
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                found |= {module, *(f"{module}.{name.name}" for name in names)}
            case ast.Import(names=names):
                found |= {name.name for name in names}
    return frozenset(found)
