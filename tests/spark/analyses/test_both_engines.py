"""Each analysis has the same rows in both engines. The input is the largest first input of any test of the analysis;
with `--exhaustive`, the input of every run in every test.
"""

import inspect
import itertools
from collections import defaultdict
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest

from tests.checks import check_each
from tests.spark.analyses import (
    test_of_data,
    test_of_metadata,
    test_of_times,
    test_replica_divergence,
)
from tests.spark.analyses.given import ANALYSES, InSpark, Told, rows_in

pytestmark = [pytest.mark.spark, pytest.mark.slow(seconds=60), pytest.mark.filterwarnings("ignore")]

MODULES = (test_of_data, test_of_metadata, test_of_times, test_replica_divergence)


def calls_of(module):
    """Yields each test of the module with its arguments besides the engine."""
    for name, function in vars(module).items():
        if not name.startswith("test_"):
            continue
        marks = [m for m in getattr(function, "pytestmark", ()) if m.name == "parametrize"]
        names = [[n.strip() for n in _names(mark.args[0])] for mark in marks]
        if set(inspect.signature(function).parameters) != {"engine", *itertools.chain(*names)}:
            continue  # this test reads directories, in Spark
        for values in itertools.product(*(mark.args[1] for mark in marks)):
            arguments = {}
            for of_mark, value in zip(names, values, strict=True):
                arguments |= zip(of_mark, [value] if len(of_mark) == 1 else value, strict=True)
            yield function, arguments


def _names(names):
    return names.split(",") if isinstance(names, str) else names


class Noted(Exception):
    """Raised when a test has passed the views of its first run of an analysis."""


@pytest.fixture(scope="module")
def is_exhaustive(pytestconfig):
    return pytestconfig.getoption("--hypothesis-profile") == "exhaustive"


@pytest.fixture(scope="module")
def cases(engine, is_exhaustive):
    """Returns the views of the runs of an analysis in the tests, by analysis."""
    found = defaultdict(list)

    def noted(engine, name, **views):
        found[name].append(views)
        if not is_exhaustive:
            raise Noted
        return Told(ANALYSES[name], rows_in(engine, name, views))

    with pytest.MonkeyPatch.context() as patch:
        for module in MODULES:
            patch.setattr(module, "analysed", noted)
            for function, arguments in calls_of(module):
                with suppress(Noted):
                    function(engine, **arguments)
    return found


def cell(value):
    """Returns a value in a form that is equal, and sorts equally, in both engines."""
    if isinstance(value, dict | tuple) and hasattr(
        value, "keys" if isinstance(value, dict) else "asDict"
    ):
        value = value if isinstance(value, dict) else value.asDict()
        return tuple((key, cell(part)) for key, part in sorted(value.items()))
    if isinstance(value, np.ndarray | list):
        return tuple(map(cell, value))
    if value is None or value is pd.NaT or value is pd.NA or value != value:
        return None
    if isinstance(value, float | np.floating):
        return float(f"{value:.9g}")
    return value.item() if isinstance(value, np.generic) else value


def canonical(frame):
    """Returns names and rows in a canonical order, because the engines may order equal rows differently."""
    rows = [tuple(map(cell, row)) for row in frame.itertuples(index=False, name=None)]
    return list(frame.columns), sorted(rows, key=repr)


@pytest.mark.parametrize("name", ANALYSES)
def test_rows_are_equal_in_both_engines(spark, engine, cases, name, is_exhaustive):
    analysis, chosen = ANALYSES[name], cases[name]
    if not is_exhaustive:
        chosen = [max(chosen, key=lambda views: sum(map(len, views.values())))]

    def check(views):
        ours, theirs = rows_in(engine, name, views), rows_in(InSpark(spark), name, views)
        assert canonical(ours) == canonical(theirs)
        assert ours.dtypes.to_dict() == theirs.dtypes.to_dict()
        assert analysis.evaluate(ours) == analysis.evaluate(theirs)

    check_each(chosen, check)
