"""The format of configuration transcripts: a file's lines after a command, and every part of an error."""

from __future__ import annotations

from collections.abc import Callable

from tests.datadriven import Step
from tests.quorum.config_of import Given
from trimaran.node.config.config_def import ConfigError
from trimaran.wire.errors import KafkaError


def settings(step: Step, base: dict[str, str] | None = None) -> dict[str, Given]:
    """Returns the settings of `base`, changed by the step's lines: `KEY=VALUE` sets a key, `KEY` removes it. Each
    setting has its line as the origin.
    """
    found = {
        key: Given(value, f"base:{n}") for n, (key, value) in enumerate((base or {}).items(), 1)
    }
    for number, line in enumerate(lines(step), 1):
        key, equals, value = line.partition("=")
        if equals:
            found[key] = Given(value, f"f:{number}")
        else:
            found.pop(key, None)
    return found


def lines(step: Step) -> list[str]:
    """Returns the lines after the command's."""
    found = [line for line in step.source.splitlines() if line and not line.startswith("#")]
    return found[1:]


def outcome(act: Callable[[], str | None]) -> str:
    """Returns the result of `act`, or its refusal with everything that a user or a client sees."""
    try:
        return act() or "ok"
    except ConfigError as error:
        told = {
            "key": error.key,
            "value": error.value,
            "why": error.why,
            "origin": error.origin,
            "fix": error.fix,
            "answer": error.answer,
        }
        return "refused\n" + "\n".join(f"  {name}: {what}".rstrip() for name, what in told.items())
    except KafkaError as error:
        return str(error)
