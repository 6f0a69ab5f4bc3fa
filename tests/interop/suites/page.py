"""The last section of `docs/compatibility.md`, generated from `results/`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.interop.suites import results
from tests.interop.suites.gaps import APART, GAPS, ON_KAFKA
from tests.interop.suites.registry import SUITES
from tests.interop.suites.results import FAILED, PASSED, SKIPPED
from tests.interop.suites.variants import VARIANTS

PAGE = Path(__file__).parents[3] / "docs" / "compatibility.md"
NAME_MAX = 60
NAMED_MAX = 5  # the maximum of listed tests with the same reason
HEADING = "## Tests of others, and clients\n"
INTRODUCTION = """
This section is written from the results of the runs (`tests/interop/suites/results/`).
`REWRITE_TRANSCRIPTS=1 pytest tests/test_compatibility.py` writes it.

**Suites.** The tests that the authors of clients wrote ran on a cluster of ours and on one of Apache Kafka;
the second column has its version. Both have the same properties files: one controller, three brokers, each in a rack,
and an authorizer. The tests of kafka-python start a node for each file, with TLS and SASL if needed.
Those of librdkafka skip cases that need TLS, SASL or topics that are not created automatically, so it ran in other
ways, too. Its case 0174 waits eight times as long, because it was written for a dedicated machine.
Those of franz-go move 50,000 records; a separate run moves the 500,000 of its authors.
kcl, kafkactl, kcat, Burrow, kafka_exporter and kminion are programs on the PATH. A test is a command of a program, or
its answer by HTTP. It passes here when the answer is Kafka's, except for names of brokers, ids and times.
`applications` are Apache's own programs with exactly-once: MirrorMaker 2 in both directions between the cluster and
one of Kafka, Streams, Connect, and Flink's connector. MirrorMaker 2 and Connect are those of 4.3, because not all of
4.4's were published. Nodes and the programs themselves are killed meanwhile. Each test is one claim about such a run.
Addresses, names and waits that were written for the authors' own machines are changed in copies of the tests.
`./dev interop -k suites` runs the suites on ours again and compares, `-k librdkafka-sasl` one of the other ways.
Some packages contain no tests, such as KafkaJS's: `--sources FOLDER` names checkouts of them.
"""
CLIENTS = """
**Clients.** Tests that `./dev interop --record` and `pytest --record tests/clients` ran here with each version.
✓ means that all tests passed; an empty field was not run.
"""


def section() -> str:
    """Returns the section from its heading to the end of the page."""
    return HEADING + INTRODUCTION + _suites() + _gaps() + CLIENTS + _matrix()


def _suites() -> str:
    rows = [
        _suite(suite.NAME, f"{suite.NAME} {suite.VERSION}", APART[suite.NAME]) for suite in SUITES
    ]
    rows += [
        _suite(
            variant.NAME,
            f"{variant.suite.NAME}, {variant.title}",
            APART.get(variant.NAME, APART[variant.suite.NAME]),
        )
        for variant in VARIANTS
    ]
    head = (
        "| suite | Kafka | tests | pass on ours | on Kafka | of Kafka's | skipped | not counted |"
    )
    return "\n".join(["", head, "|---|---|---|---|---|---|---|---|", *rows, ""])


def _suite(name: str, title: str, apart: str) -> str:
    tests = results.load(name)
    ours, kafka = (
        Counter(states.get(kind, SKIPPED) for states in tests.values())
        for kind in ("ours", "kafka")
    )
    both = sum(1 for s in tests.values() if s.get("kafka") == PASSED == s.get("ours"))
    return (
        f"| {title} | {results.kafkas()[name]} | {len(tests)} | {ours[PASSED]} | {kafka[PASSED]} "
        f"| {both} of {kafka[PASSED]} | {ours[SKIPPED]} | {apart} |"
    )


def _gaps() -> str:
    alike: dict[tuple[str, str, str, str], list[str]] = {}
    for suite in (*SUITES, *VARIANTS):
        for name, states in sorted(results.load(suite.NAME).items()):
            ours, kafka = states.get("ours", SKIPPED), states.get("kafka", SKIPPED)
            if FAILED in states.values() or ours != kafka:
                why = _why(suite.NAME, name)
                alike.setdefault((suite.NAME, ours, kafka, why), []).append(name)
    rows = [
        f"| {suite} | {test} | {ours} | {kafka} | {why} |"
        for (suite, ours, kafka, why), names in alike.items()
        for test in _tests(names)
    ]
    if not rows:
        return "\nNo test failed on either.\n"
    head = "| suite | test | ours | Kafka | why |"
    return "\n".join(["", head, "|---|---|---|---|---|", *rows, ""])


def _tests(names: list[str]) -> list[str]:
    """Returns each of a few tests with the same reason; for many, the first and the number of others."""
    if len(names) <= NAMED_MAX:
        return [_code(name) for name in names]
    return [f"{_code(names[0])} and {len(names) - 1} others"]


def _code(name: str) -> str:
    """Returns a test's name, truncated to the width of a cell."""
    name = name.replace("|", r"\|")
    return f"`{name}`" if len(name) <= NAME_MAX else f"`{name[:NAME_MAX]}…`"


def _why(suite: str, test: str) -> str:
    return GAPS.get(suite, {}).get(test) or ON_KAFKA.get(suite, {}).get(test, "")


def _matrix() -> str:
    tests = results.clients()
    columns = sorted(
        {what for versions in tests.values() for done in versions.values() for what in done}
    )
    rows = [
        f"| {client} {version} | {' | '.join(_mark(done.get(what)) for what in columns)} |"
        for client, versions in sorted(tests.items())
        for version, done in sorted(versions.items(), key=lambda one: _number(one[0]))
    ]
    head = f"| client | {' | '.join(columns)} |"
    return "\n".join(["", head, "|---" * (len(columns) + 1) + "|", *rows, ""])


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _mark(states: dict[str, str] | None) -> str:
    if not states or set(states.values()) == {SKIPPED}:
        return ""
    passed = sum(state == PASSED for state in states.values())
    return "✓" if passed == len(states) else f"{passed} of {len(states)}"
