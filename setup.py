"""The parts of the package that are compiled; everything else of the build is in pyproject.toml.

Without a working C compiler the wheel holds plain Python only, and the same sources run interpreted.
"""

from Cython.Build import cythonize
from setuptools import Extension, setup

WALK = Extension("log.columns_walk", ["log/columns_walk.py"], extra_compile_args=["-O2", "-g0"])

OFFSET_MAP = Extension(
    "log.compaction.offset_map",
    ["log/compaction/offset_map.py"],
    extra_compile_args=["-O2", "-g0"],
)

extensions = cythonize([WALK, OFFSET_MAP], build_dir="build", show_all_warnings=False)
for extension in extensions:
    extension.optional = True  # said of `WALK`, Cython forgets it

setup(ext_modules=extensions)
