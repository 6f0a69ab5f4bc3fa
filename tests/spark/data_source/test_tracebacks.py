import logging

import pytest

from trimaran.spark.data_source.tracebacks import captured, cause_of, silence_query_loggers

pytest.importorskip("pyspark")
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_query_error_is_not_logged_twice(spark, query_loggers):
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


def fail_in_stages(spark, *causes):
    """Several stages of a query fail before Spark checks again, which a real query does only by chance."""
    jvm = spark._jvm
    failed = jvm.PythonUtils.toSeq([jvm.java.lang.RuntimeException(cause) for cause in causes])
    errors = jvm.org.apache.spark.sql.errors.QueryExecutionErrors
    jvm.scala.util.Failure(errors.multiFailuresInStageMaterializationError(failed)).get()


def test_stages_failing_at_once_give_one_error(spark):
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    ours = "trimaran.spark.origins.origin.DataUnreadable: there is no orders"
    with pytest.raises(PySparkException) as error, captured():
        fail_in_stages(spark, ours, ours)
    assert cause_of(error.value) == "there is no orders"
    with pytest.raises(Py4JJavaError), captured():
        fail_in_stages(spark, "a mistake of Spark's", "and another")
