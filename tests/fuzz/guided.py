"""One target under atheris, with coverage of our packages and of the codecs generated while it runs.

Run by `tests.fuzz`: `python -m tests.fuzz.guided TARGET [LIBFUZZER-OPTION ...] [FOLDER ...]`.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(
    include=["trimaran.wire", "trimaran.log", "trimaran.node.oauth"], enable_loader_override=False
):
    from tests.fuzz.targets import TARGETS
    from trimaran.wire.codec.source import FunctionSource

_compile = FunctionSource.compile


def compile_instrumented(self, function, filename):
    """Compiles generated code with instrumentation, since it has its own branches to be found."""
    return atheris.instrument_func(_compile(self, function, filename))


def main() -> None:
    FunctionSource.compile = compile_instrumented
    target = TARGETS[sys.argv[1]]
    atheris.Setup([sys.argv[0], *sys.argv[2:]], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
