"""Each step of a connection's reader and writer, and what it holds after it, as the transcript says."""

from pathlib import Path

from tests.datadriven import REWRITE, SEPARATOR, parse_transcript
from tests.wire.transport.scripted_connection import Script, run_script

FILE = Path(__file__).parent / "testdata" / "connection.txt"


def test_a_connection_reads_begins_answers_and_ends_as_the_transcript_says():
    written = []

    async def check(script: Script):
        for step in parse_transcript(FILE.read_text()):
            actual = await script.step(step)
            if not REWRITE:
                assert actual == step.expected, f"{FILE}:{step.line}: {step.source}"
            written.append(f"{step.source}\n{SEPARATOR}\n{actual}\n")

    run_script(check)
    assert written
    if REWRITE:
        FILE.write_text("\n".join(written))
