"""Imports at first use."""

import sys

import pytest

from trimaran.wire.later import imported_later


@pytest.fixture
def module_path(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "counted_here.py"
    sys.modules.pop("counted_here", None)


def test_module_is_imported_at_first_attribute(module_path):
    module_path.write_text("VALUE = 3")
    later = imported_later("counted_here")
    assert "counted_here" not in sys.modules
    assert later.VALUE == 3
    assert "counted_here" in sys.modules


def test_submodule_itself_is_returned():
    assert imported_later("os.path").join is __import__("os").path.join


def test_absent_module_is_refused_at_use():
    absent = imported_later("no_such_module_of_anybody")
    with pytest.raises(ModuleNotFoundError, match="no_such_module_of_anybody"):
        _ = absent.name
