"""Modules that may be compiled, loaded from their Python source."""

import importlib.util
from pathlib import Path


def interpreted(module):
    """Loads `module` from its source, whether or not it has a compiled version."""
    name = module.__name__.rpartition(".")[2]
    source = Path(module.__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"{name}_interpreted", source)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    assert not found.COMPILED
    return found
