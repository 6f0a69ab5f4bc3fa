"""The first steps of a new user with an installed trimaran, in an empty directory. Runs with the Python of that
environment, which needs pytest-trimaran but nothing of a checkout:

    python installed.py [--compiled | --interpreted] [--full]

`--full` adds the steps of the demo: ZooKeeper and mirror, a killed leader, Spark, and the console's pages. Raises
AssertionError or CalledProcessError after a failure.
"""

import importlib
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import urllib.request
from importlib.metadata import distribution, version
from pathlib import Path

SITE = Path(sysconfig.get_path("purelib")).resolve()
LINES = 1000
OF_EXTRAS = {"confluent_kafka", "pytest", "pyspark", "pyarrow", "kazoo", "jwt", "cryptography"}
PAGES = "/ /quorum /brokers /brokers/11 /groups /events /metadata /metadata/diff /configs /charts /access /analyses"
OF_TOPICS = "/topics /topics/orders /topics/orders/0 /topics/orders/messages /zookeeper"
OF_BROWSERS = "/static/console.css /static/console.js /static/icon.svg /plotly.min.js"
# the file of `trimaran.wire.codec.native`, which cannot be imported in this case
NOT_COMPILED = "cython"
PYTEST = """
import subprocess, sys

def trimaran(*words, stdin=None):
    command = [sys.executable, "-m", "trimaran", *words]
    return subprocess.run(command, input=stdin, check=True, capture_output=True, text=True).stdout

def test_a_record_arrives(embedded_kafka, kafka_bootstrap, kafka_topic):
    trimaran("produce", kafka_topic, "-b", kafka_bootstrap, stdin="hello\\n")
    embedded_kafka.eventually_consumes(kafka_topic, ["hello"])
"""


def trimaran(*words, stdin=None):
    print("$ trimaran", *words, flush=True)
    command = [Path(sys.executable).parent / "trimaran", *words]
    done = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout[:2000], flush=True)
    done.check_returncode()
    return done.stdout


def check_what_is_installed(compiled):
    """Checks that every module comes from the environment, and that compilable ones are compiled as expected."""
    files = distribution("trimaran").files
    modules = [
        f for f in files if f.suffix == ".py" and f.parts[1:2] not in {("spark",), ("zkcompat",)}
    ]
    assert len(modules) > 400
    for file in modules:
        if not file.name.startswith(("__main__", "pyspark_")) and "console" not in file.parts:
            name = ".".join(file.with_suffix("").parts).removesuffix(".__init__")
            try:
                module = importlib.import_module(name)
            except ImportError as error:
                missing = (error.name or "").partition(".")[0]
                if missing not in OF_EXTRAS and (compiled or missing != NOT_COMPILED):
                    raise
                continue
            assert Path(module.__file__).resolve().is_relative_to(SITE), module.__file__
    from trimaran.log.batches.columns import COMPILED

    assert compiled is None or compiled == COMPILED
    print("trimaran", version("trimaran"), "compiled" if COMPILED else "interpreted")


def check_cluster(*options):
    trimaran("up", "-d", *options)
    try:
        trimaran("topics", "create", "orders", "-p", "3")
        trimaran("produce", "orders", stdin="".join(f"{i}\n" for i in range(LINES)))
        consumed = trimaran("consume", "orders", "-e")
        assert sorted(map(int, consumed.split())) == list(range(LINES))
        trimaran("quorum", "status")
        if "--zk" in options:
            trimaran("chaos", "kill", "leader")
            trimaran("topics", "create", "after-the-kill")
            trimaran("zk", "verify")
            check_console()
            trimaran("analyze", "--html", "report")
            assert Path("report", "index.html").stat().st_size > 10_000
    finally:
        trimaran("down")


def check_console():
    """Checks every page, and the other files that browsers fetch."""
    command = [Path(sys.executable).parent / "trimaran", "console", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as console:
        try:
            (base,) = re.findall(r"http://[\d.:]+", console.stderr.readline())
            for path in f"{PAGES} {OF_TOPICS} {OF_BROWSERS}".split():
                with urllib.request.urlopen(base + path, timeout=60) as answer:
                    assert answer.status == 200
                    print(base + path, len(answer.read()), "bytes", flush=True)
        finally:
            console.terminate()
    assert console.returncode == 0


def check_pytest():
    Path("test_mine.py").write_text(PYTEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"]
    subprocess.run(command, check=True)


def main(arguments):
    compiled = {"--compiled": True, "--interpreted": False}.get((arguments or [""])[0])
    with tempfile.TemporaryDirectory() as empty:
        os.chdir(empty)
        check_what_is_installed(compiled)
        trimaran("--version")
        trimaran("doctor")
        if "--full" in arguments:
            check_cluster("--zk")
        else:
            check_cluster("--controllers", "1", "--brokers", "1")
            check_pytest()
        os.chdir("/")


if __name__ == "__main__":
    main(sys.argv[1:])
