"""Installs the rule that gives each scan of `kafka_log` its conditions and the columns that a query needs, and the
strategy that spares a copy of each row.

PySpark's own push-down is not used. Its scans of one DataFrame share a plan, so that the conditions of one query omit
rows of another (PySpark 4.3.0: `PythonDataSourceV2.setReadInfo`); it passes no condition with OR, and no columns.
"""

from __future__ import annotations

import logging
from importlib import resources
from typing import TYPE_CHECKING, Any

from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    from py4j import protocol as py4j
    from pyspark.sql import SparkSession
else:
    py4j = imported_later("py4j.protocol")

log = logging.getLogger(__name__)

# A resource, because inside a zip file of `--py-files` it has no path.
SOURCE = resources.files(__package__).joinpath("ScanRule.java")
CLASS = "trimaran.ScanRule"
STRATEGY = CLASS + "$Planning"


def install(spark: SparkSession) -> bool:
    """Adds the rule to the session; returns whether the session now has the rule. Without the rule, queries read more
    data, and return the same rows.

    A session of Spark Connect has no optimizer here, and another version of Spark may lack classes that the rule uses.
    """
    session = getattr(spark, "_jsparkSession", None)
    if session is None:
        return False
    methods = session.experimental()
    rules = methods.extraOptimizations()
    if any(rules.apply(i).getClass().getName() == CLASS for i in range(rules.size())):
        return True
    try:
        classes = _compiled(spark._jvm)  # noqa: SLF001 - the only way to the JVM
        rule, strategy = (classes.loadClass(name).newInstance() for name in (CLASS, STRATEGY))
    except (py4j.Py4JError, TypeError) as error:
        log.warning(
            "kafka_log reads whole partitions and all columns: no rule for this Spark: %s", error
        )
        return False
    getattr(methods, "extraOptimizations_$eq")(rules.appended(rule))
    getattr(methods, "extraStrategies_$eq")(methods.extraStrategies().appended(strategy))
    return True


def _compiled(jvm: Any) -> Any:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(SOURCE.read_text())
    return compiler.getClassLoader()
