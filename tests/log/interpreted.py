"""Modules that may be compiled, as the plain Python that they are made from."""

import importlib.util
from pathlib import Path


def interpreted(module):
    """`module` from its source, whether or not there is a compiled one beside it."""
    name = module.__name__.rpartition(".")[2]
    source = Path(module.__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"{name}_interpreted", source)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    assert not found.COMPILED
    return found
