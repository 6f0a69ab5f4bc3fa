"""The one part of the package that is compiled; everything else of the build is in pyproject.toml.

Without a working C compiler the wheel holds plain Python only, and `log.columns` runs the same source interpreted.
"""

from Cython.Build import cythonize
from setuptools import Extension, setup

WALK = Extension("log.columns_walk", ["log/columns_walk.py"], extra_compile_args=["-O2", "-g0"])

extensions = cythonize([WALK], build_dir="build", show_all_warnings=False)
for extension in extensions:
    extension.optional = True  # said of `WALK`, Cython forgets it

setup(ext_modules=extensions)
