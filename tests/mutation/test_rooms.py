"""Each room has its tests, and an error names a room that has none."""

from pathlib import Path

import pytest

from tests.checks import check_each
from tests.mutation.rooms import BY_WAY_OF, ROOT, belonging_to, imported
from trimaran.log.steps import at_once
from trimaran.node.text.escaping import one_line

ROOMS = [
    "broker/background",
    "broker/coordination",
    "broker/handlers",
    "broker/producing",
    "broker/storage",
    "broker/transactions",
    "log",
    "node",
    "quorum/metadata/authorizer.py",
    "quorum/serving",
    "spark",
    "trimaran/client",
    "wire",
    "zkcompat",
]


@pytest.mark.slow(seconds=10)
def test_every_room_has_existing_tests():
    """A folder has its own tests; a file may have a listed one."""

    def check(room: str) -> None:
        for name in belonging_to([room]):
            path, _, test = name.partition("::")
            found = ROOT / path
            assert found.is_file() or list(found.rglob("test_*.py")), name
            assert not test or f"def {test}(" in found.read_text(), name

    check_each(sorted({*ROOMS, *BY_WAY_OF}), check)


def test_room_is_tested_by_folder_and_importers():
    found = belonging_to(["broker/storage"])
    assert "tests/broker/storage" in found
    assert "tests/broker/background/test_directory_moves.py" in found


def test_documented_bounds_are_compared_for_each_room():
    assert all("tests/test_limits.py" in belonging_to([room]) for room in ("node", "log/steps.py"))


def test_nested_test_is_not_named_again():
    found = belonging_to(["quorum/serving", "quorum/metadata/authorizer.py"])
    assert "tests/broker/handlers" in found
    assert not [test for test in found if test.startswith("tests/broker/handlers/")]


def test_room_without_tests_is_refused_with_message():
    with pytest.raises(SystemExit, match="no test belongs to no/such/room"):
        belonging_to(["no/such/room"])


@pytest.mark.parametrize(
    ("file", "function"), [("log/steps.py", at_once), ("node/text/escaping.py", one_line)]
)
def test_mutant_has_the_file_of_its_functions(file, function):
    """Otherwise no test would be seen to execute its lines, and no mutant could be installed."""
    assert str(ROOT / imported(Path(file))) == function.__code__.co_filename
