"""The small run of each program. A row has the typed words and the required output, or names another place that runs
the program.

A row `in_ci` takes no more than two seconds of CPU and needs no Apache Kafka; `tests/programs/test_programs.py` runs
it. `./dev interop` runs all others (`tests/interop/test_programs.py`).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.programs.named import ROOT

# Benches and chaos read their duration from the environment; seeds give the same run everywhere.
SMALL = {"BENCH_SMALL": "1", "CHAOS_SECONDS": "10", "PYTHONHASHSEED": "0"}
NUMBER = r"[\d.,]+"


@dataclass(frozen=True)
class Run:
    """A run; `words` are typed, and `shown` is a regular expression for the output, mostly a figure."""

    words: str
    shown: str
    in_ci: bool = False

    def check(self, folder: Path) -> None:
        """Runs the words, with `FOLDER` for an empty folder. They must end with exit code 0 and print the expected
        output.
        """
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        # A pytest that a program starts must not get the variables of pytest's workers.
        own = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        done = subprocess.run(
            self.words.replace("FOLDER", str(folder)).split(),
            cwd=ROOT,
            env={**own, **SMALL, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        told = f"{self.words}\n{done.stdout}{done.stderr}"
        assert done.returncode == 0, f"code {done.returncode} of {told}"
        assert re.search(self.shown, told, re.MULTILINE | re.DOTALL), f"no {self.shown} in {told}"


@dataclass(frozen=True)
class Elsewhere:
    """A program that `by`, a file or folder of the project, runs."""

    by: str
    why: str


def bench(name: str, figure: str) -> tuple[str, Run]:
    """Returns a run in which both systems have this figure in the table of ratios."""
    columns = rf"{NUMBER} +{NUMBER} +(?:{NUMBER}|-)"
    return f"dev bench {name}", Run(f"./dev bench {name}", rf"^{name} +{figure}.* {columns}$")


ROWS: tuple[tuple[str, Run | Elsewhere], ...] = (
    ("dev setup", Run("./dev setup", r"\.venv is ready", in_ci=True)),
    ("dev lint", Elsewhere(".ci/run", "`./dev test` begins with it")),
    ("dev test", Elsewhere(".ci/run", "CI is this")),
    (
        "dev test --exhaustive",
        Run("./dev test --exhaustive tests/wire/test_numbers.py", r"^=+ \d+ passed"),
    ),
    ("dev interop", Elsewhere("tests/interop", "the other rows are run by it")),
    (
        "dev release",
        Run("./dev release --dry-run --no-isolation 99.0.0", "^not published; these commands"),
    ),
    ("dev docs", Run("./dev docs small_run", r"^dev docs: \d+ pages")),
    ("dev demo", Run("./dev demo LICENSE --data FOLDER", "^.*report: .*html")),
    ("trimaran.demo", Elsewhere("dev", "`./dev demo` is this")),
    (
        "trimaran.fault_control",
        Elsewhere("tests/trimaran/fault_control/test_process.py", "it serves until it is stopped"),
    ),
    (
        "trimaran.spark.documentation",
        Run("python -m trimaran.spark.documentation", "^## partition_history", in_ci=True),
    ),
    # Simulations, mutants, chaos, fuzzing.
    ("dev simulate", Run("./dev simulate 1", "simulated seconds a second", in_ci=True)),
    ("dev simulate --seed", Run("./dev simulate --seed 1", r"commits \d", in_ci=True)),
    ("dev simulate --model", Run("./dev simulate --model --epochs 1", r"^\d+ states", in_ci=True)),
    (
        "dev simulate --mutants",
        Run("./dev simulate --mutants --only forgotten", r"^(\d+) of \1 mutants killed"),
    ),
    (
        "dev simulate --partitions",
        Run("./dev simulate --partitions 1", "simulated seconds a second", in_ci=True),
    ),
    (
        "dev simulate --partitions --seed",
        Run("./dev simulate --partitions --seed 1", "acknowledged"),
    ),
    (
        "dev simulate --mutants --partitions",
        Run("./dev simulate --mutants --partitions --only nobody", r"^(\d+) of \1 mutants killed"),
    ),
    ("dev simulate --coordinators", Run("./dev simulate --coordinators 1", "simulated seconds a")),
    (
        "dev simulate --coordinators --seed",
        Run("./dev simulate --coordinators --seed 1", "HeartbeatResponse"),
    ),
    (
        "dev simulate --mutants --coordinators",
        Run("./dev simulate --mutants --coordinators --only takes", r"^(\d+) of \1 mutants killed"),
    ),
    (
        "dev mutate",
        Run(
            "./dev mutate broker/replication --every 400 --tests tests/broker/replication",
            r"\d killed",
        ),
    ),
    ("dev chaos", Run("./dev chaos 1", "^1 runs, 0 failed")),
    ("dev chaos --transactions", Run("./dev chaos --transactions 1", "^ours: 1 runs: 1 ok")),
    ("dev chaos --shares", Run("./dev chaos --shares 1", "^ours: 1 runs: 1 ok")),
    (
        "dev chaos --mirror",
        Run("./dev chaos --mirror --quorum own --only 500", "^1 faults played, 0 missed"),
    ),
    ("dev fuzz", Run("./dev fuzz frame --minutes 0.05", r"stat::number_of_executed_units: \d")),
    ("tests.log.crash", Run("python -m tests.log.crash --seeds 1", "^0 failures")),
    ("tests.log.fixtures", Run("python -m tests.log.fixtures", r"^(\d+) of \1 equal", in_ci=True)),
    (
        "tests.interop.golden",
        Run(
            "python -m tests.interop.golden --version 4.3.0 --samples 1",
            r"4.3.0: (\d+) of \1 pairs",
        ),
    ),
    (
        "build",
        Elsewhere(
            "tests/interop/test_package.py", "it builds both; the image is of test_container.py"
        ),
    ),
    # Benches in this process, or in a few of our processes.
    ("bench.micro_log", Run("python -m bench.micro_log", rf"append +{NUMBER} µs", in_ci=True)),
    ("bench.micro_records", Run("python -m bench.micro_records", "M records/s.* MiB$", in_ci=True)),
    (
        "bench.micro_produce",
        Run("python -m bench.micro_produce", rf"handler +{NUMBER} µs", in_ci=True),
    ),
    ("bench.index_lookup", Run("python -m bench.index_lookup", r"^ +16 MB: first", in_ci=True)),
    (
        "bench.idle_connections",
        Run("python -m bench.idle_connections 20 tls-login", rf"{NUMBER} KiB each", in_ci=True),
    ),
    (
        "bench.authorization_cost",
        Run("python -m bench.authorization_cost", "^consume: .* us a request"),
    ),
    ("bench.metrics_cost", Run("python -m bench.metrics_cost", rf"^a scrape: {NUMBER} ms")),
    ("bench.micro_mirror", Run("python -m bench.micro_mirror", f"shown after {NUMBER} s")),
    ("bench.restart", Run("python -m bench.restart", "1 MiB written: 3 asked")),
    (
        "bench.log_path.compaction",
        Elsewhere("bench/log_path/peers.py", "`./dev bench log-path` does"),
    ),
    ("dev bench calls", Elsewhere("tests/test_calls.py", "it compares the rows with their marks")),
    # Benches that compare with Apache Kafka.
    bench("startup", "1 node: ready"),
    bench("produce", "100 B, write-behind: rate"),
    bench("consume", "1 KiB, page cache: rate"),
    bench("latency", "synchronous produce, write-behind, p99"),
    bench("rf3", "synchronous produce, p99"),
    bench("broker-failover", "kill -9 partition leader"),
    bench("exactly-once", "1,000 records"),
    bench("quotas", "connections opened"),
    bench("fairness", "100 idle: p99 to quiet"),
    bench("group-joining", "3 members, consumer: stable"),
    bench("group-idle", "20 idle members, share: CPU"),
    bench("group-loading", ".*until served"),
    bench("transactions", "100 records each, write-behind: commit p50"),
    bench("transactions-java", "100 records each, write-behind: commit p50"),
    bench("shares", "8 members: records"),
    bench("streams-tasks", "4 tasks: stable"),
    (
        "dev bench log-path",
        Run("./dev bench log-path", rf"^compaction +100 B zstd: left +MB +{NUMBER} +{NUMBER}"),
    ),
    ("dev bench codec", Run("./dev bench codec", rf"^RegisterBrokerRecord +encode +{NUMBER}")),
    (
        "dev bench failover",
        Run(
            "./dev bench failover killed frozen-50k steady --brokers",
            "^killed +brokers +kafka +1 .*^steady +kafka +0 elections",
        ),
    ),
    ("dev bench scale", Run("./dev bench scale steps", "^steps: controller: longest", in_ci=True)),
    ("dev bench scale", Run("./dev bench scale", "^restart: a broker with .* every log opened")),
    ("dev bench spark", Run("./dev bench spark", "^scan +all of it")),
)

PYTHON = {
    "benchmarks.md": Elsewhere(
        "docs/benchmarks.md", "three options of Spark's own, for a frame of the reader's"
    ),
    "faults.md": Elsewhere(
        "tests/trimaran/testing/test_faults.py", "its first block; the others are parts of tests"
    ),
    "first_programs.md": Elsewhere(
        "tests/processes/test_start_pages.py", "each program, on a broker of its own"
    ),
    "security.md": Elsewhere(
        "tests/node/config", "a policy of the reader's; policies are tested there"
    ),
    "spark.md": Elsewhere("tests/spark/test_spark.py", "all blocks, one after the other"),
    "spark_exactly_once.md": Elsewhere(
        "tests/spark/sink/test_exactly_once.py", "its options, for several drivers"
    ),
    "spark_recipes.md": Elsewhere(
        "tests/interop/test_spark_recipes.py", "all of them, with packages that this project lacks"
    ),
    "spark_values.md": Elsewhere(
        "tests/spark/schema_values/test_decoded.py", "its call, with a registry of the test"
    ),
    "spark_writing.md": Elsewhere("tests/spark/sink/test_spark_write.py", "its frames, by Spark"),
    "testing.md": Elsewhere(
        "tests/trimaran/testing/test_recipes.py", "all but two, which need more"
    ),
}
"""The tests that run the Python in the blocks of a page."""
