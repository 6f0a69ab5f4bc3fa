"""The processes that a run kills are recognized by their parents and commands."""

import os
import subprocess
import sys

from tests.chaos.spark_sink import processes
from tests.chaos.spark_sink.processes import Process

DRIVER, JVM, FIRST, SECOND = 10, 11, 20, 21
EXECUTOR = ("/usr/bin/java", "-cp", "jars", processes.EXECUTOR)
FOUND = [
    Process(DRIVER, 1, DRIVER, ("python", "-m", "tests.chaos.spark_sink.query")),
    Process(JVM, DRIVER, DRIVER, ("/usr/bin/java", "-cp", "jars", "SparkSubmit")),
    Process(FIRST, JVM, DRIVER, EXECUTOR),
    Process(SECOND, JVM, DRIVER, EXECUTOR),
    Process(30, JVM, DRIVER, ("python", "worker_daemon.py", "create_data_source")),
    Process(31, 30, DRIVER, ("python", "worker_daemon.py", "create_data_source")),
    Process(40, FIRST, DRIVER, ("python", "worker_daemon.py", "pyspark.worker")),
    Process(41, 40, DRIVER, ("python", "worker_daemon.py", "pyspark.worker")),
    Process(42, 40, DRIVER, ("python", "worker_daemon.py", "pyspark.worker")),
]


def test_victims_are_found_by_role():
    assert processes.drivers(FOUND) == [JVM, DRIVER]
    assert processes.executors(FOUND) == [FIRST, SECOND]
    assert processes.workers(FOUND) == [41, 42]


def test_own_children_are_found_by_their_session():
    with subprocess.Popen([sys.executable], stdin=subprocess.PIPE, start_new_session=True) as child:
        found = processes.of_session(processes.processes(), child.pid)
        assert [(p.pid, p.parent, p.is_java) for p in found] == [(child.pid, os.getpid(), False)]
        processes.kill([child.pid])
    processes.kill([child.pid])
    assert processes.of_session(processes.processes(), child.pid) == []
