import logging

import pytest

from spark.tracebacks import silence_query_loggers

pytest.importorskip("pyspark")
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_the_error_of_a_query_is_not_logged_too(spark, query_loggers):
    from pyspark.errors import AnalysisException

    logged = []
    handler = logging.Handler()
    handler.emit = logged.append
    query_loggers[0].addHandler(handler)
    try:
        for silent in (False, True):
            if silent:
                silence_query_loggers()
            logged.clear()
            with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
                spark.sql("SELECT nothing FROM VALUES (1) AS rows(one)").collect()
            assert bool(logged) is not silent
    finally:
        query_loggers[0].removeHandler(handler)
