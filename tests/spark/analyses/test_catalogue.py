"""The catalogue lists each analysis once."""

from pathlib import Path

from trimaran.spark import analyses
from trimaran.spark.analyses.catalogue import ANALYSES, ORDER

FOLDER = Path(analyses.__file__).parent


def test_every_module_of_an_analysis_is_listed():
    files = {f"{path.parent.name}.{path.stem}" for path in FOLDER.glob("*/*.py")}
    assert set(ORDER) == {name for name in files if not name.endswith("__init__")}


def test_numbers_of_analyses_are_unique():
    assert len({analysis.number for analysis in ANALYSES.values()}) == len(ORDER)
