"""The parts of the package that are compiled; everything else of the build is in pyproject.toml.

Without a working C compiler the wheel holds plain Python only: the same sources run interpreted, but for
`wire.codec.native`, in whose place generated readers stand.
"""

from Cython.Build import cythonize
from setuptools import Extension, setup

COMPILED = (
    "log.batches.columns_walk",
    "log.batches.slice_copies",
    "log.compaction.offset_map",
    "wire.codec.native",
    "wire.java_hash",
)

extensions = cythonize(
    [
        Extension(name, [f"{name.replace('.', '/')}.py"], extra_compile_args=["-O3", "-g0"])
        for name in COMPILED
    ],
    build_dir="build",
    show_all_warnings=False,
)
for extension in extensions:
    extension.optional = True  # said before `cythonize`, it is forgotten

setup(ext_modules=extensions)
