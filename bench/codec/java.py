"""Apache Kafka's own codec, measured by `Codec.java` in a warmed-up JVM on the same bytes as the others."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.codec.cases import Case
from tests.interop import apache_kafka

PROGRAM = Path(__file__).with_name("Codec.java")


def why_not() -> str | None:
    return apache_kafka.why_not()


def measure(chosen: Sequence[Case], seconds: float) -> dict[tuple[str, str, str], float]:
    """Returns µs by case, direction and "java"."""
    lines = [
        f"{case.kind} {case.message.KEY} {case.version} "
        + base64.b64encode(case.message.encode(case.version)).decode()
        for case in chosen
    ]
    run = subprocess.run(
        ["java", "-cp", apache_kafka.class_path(), str(PROGRAM), str(seconds)],
        input="\n".join(lines),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = {}
    for case, response in zip(chosen, run.stdout.splitlines(), strict=True):
        decode, encode = map(float, response.split())
        found[case.name, "decode", "java"] = decode
        found[case.name, "encode", "java"] = encode
    return found
