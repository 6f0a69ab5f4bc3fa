"""The parts of the build that need code: links for `trimaran.log` and the other rooms, and the compiled modules.

Everything else is in pyproject.toml. Without a working C compiler the wheel holds plain Python only: the same sources
run interpreted, except `trimaran.wire.codec.native`, which generated readers replace.
"""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

ROOMS = ("broker", "log", "node", "quorum", "spark", "wire", "zkcompat")
COMPILED = (
    "trimaran.log.batches.columns_walk",
    "trimaran.log.batches.row_writing",
    "trimaran.log.batches.slice_copies",
    "trimaran.log.compaction.offset_map",
    "trimaran.wire.codec.native",
    "trimaran.wire.java_hash",
)

# `log/` is imported as `trimaran.log`: by a link in a checkout, which git ignores. setuptools follows it, so a source
# distribution has the folder itself in its place.
for room in ROOMS:
    link = Path("trimaran", room)
    if not link.exists():
        link.unlink(missing_ok=True)  # its target is missing
        link.symlink_to(Path("..", room))

extensions = cythonize(
    [
        Extension(name, [f"{name.replace('.', '/')}.py"], extra_compile_args=["-O3", "-g0"])
        for name in COMPILED
    ],
    build_dir="build",
    show_all_warnings=False,
)
for extension in extensions:
    extension.optional = True  # set after `cythonize`, which would drop it

setup(ext_modules=extensions)
