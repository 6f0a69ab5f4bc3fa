"""One Spark session for all tests of a worker: starting it takes longer than most of them."""

import logging

import pytest

QUERY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


# Most of the cost of a query over few rows is planning, and most of the rest is compilation.
SMALL = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}


@pytest.fixture(scope="session")
def spark():
    pytest.importorskip("pyspark")
    from trimaran.spark.analyses.engines import INTERPRETED, SETTINGS
    from trimaran.spark.sessions.session import session

    made = session(local_cores=1, app_name="tests")
    for key, value in {**SETTINGS, **SMALL, **INTERPRETED}.items():
        made.conf.set(key, value)
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def _handlers_as_they_were(request):
    """PySpark sets its own format on every handler of its loggers, also on pytest's, which are attached to loggers that
    do not propagate; without this fixture the logs of all later tests in this process would be JSON.
    """
    yield
    for logger in logging.root.manager.loggerDict.values():
        if type(logger).__name__ == "PySparkLogger":
            logger.propagate = True
    plugin = request.config.pluginmanager.get_plugin("logging-plugin")
    for handler in (plugin.caplog_handler, plugin.report_handler):
        handler.setFormatter(plugin.formatter)


@pytest.fixture
def query_loggers():
    """Restores PySpark's loggers of query errors after the test."""
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(name) for name in QUERY_LOGGERS]
    levels = [logger.level for logger in loggers]
    yield loggers
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.fixture(scope="session")
def small_cluster(tmp_path_factory):
    """Returns node directories with batches of ten records at 0 s, 1 s … 9 s; a partition has no leader for 2.5 s."""
    from tests.spark.directories import checkpoint, data_batches, make_node, write_partition
    from tests.spark.kafka_metadata.test_reading import standard, store

    root = tmp_path_factory.mktemp("data")
    for node_id in (1, 2, 3):
        store(root, node_id, standard().batches)
    broker = make_node(root, 11)
    write_partition(broker, "orders", 0, data_batches(10))
    for topic in ("__consumer_offsets", "__transaction_state"):
        write_partition(broker, topic, 0, [])
    checkpoint(
        broker, {("orders", 0): 100, ("__consumer_offsets", 0): 0, ("__transaction_state", 0): 0}
    )
    return root
