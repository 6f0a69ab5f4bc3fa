"""Completions of real shells, with the script that `generate completion` prints."""

import shutil
import subprocess

import pytest

from trimaran.cli import completion
from trimaran.cli.commands import COMMANDS

# Names come from a command that responds immediately: this does not test that a cluster responds within 150 ms.
NAMES = '#!/bin/sh\n[ "$1" = complete-names ] && printf "%s\\n" "$2-one" "$2-two"\n'
ASK = """
ask() { COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); COMPREPLY=(); _trimaran; echo "${COMPREPLY[*]}"; }
"""


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Returns bash's completions of the last word of each line."""
    folder = tmp_path_factory.mktemp("completion")
    program = folder / "trimaran"
    program.write_text(NAMES)
    program.chmod(0o755)
    script = completion.bash()

    def offered(*lines):
        asked = "\n".join(f"ask {program} {line}" for line in lines)
        done = subprocess.run(
            ["bash", "-c", f"{script}\n{ASK}\n{asked}"], capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    return offered


def test_bash_completes_commands_options_and_names(ask):
    assert ask(
        "topic",
        "topics de",
        "quorum voters ''",
        "topics list --under-r",
        "topics describe topics-",
        "topics describe --timeout 3 topics-o",
        "groups delete ''",
        "groups reset-offsets groups-one ''",
        "groups list groups-t",
        "topics list topics-o",
        "bench produce topics-t",
        "log-dirs --topic ''",
        "topics list -o j",
        "no such ''",
    ) == [
        "topics",
        "delete describe",
        "add remove",
        "--under-replicated",
        "topics-one topics-two",
        "topics-one",
        "groups-one groups-two",
        "groups-one groups-two",
        "groups-two",
        "topics-one",
        "topics-two",
        "topics-one topics-two",
        "json jsonl",
        "",
    ]


def test_every_command_and_its_options_are_known():
    told = dict(completion.options_of_commands())
    assert set(told) == {" ".join(words) for words, _, _ in COMMANDS}
    assert {"--bootstrap-server", "--dry-run", "--help", "--partitions"} <= set(
        told["topics create"]
    )
    assert completion.ARGUMENTS.keys() <= told.keys()


@pytest.mark.parametrize(("shell", "text"), [("zsh", completion.zsh), ("fish", completion.fish)])
def test_other_shells_can_read_theirs(shell, text):
    """Without the shell, the test can only check that the script names every noun."""
    script = text()
    assert all(words[0] in script for words, _, _ in COMMANDS)
    if program := shutil.which(shell):
        subprocess.run([program, "-n", "-c", script], check=True)
