"""The requests of a client function and its result or error, as text."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.datadriven import Step, check_transcript
from tests.trimaran.client.scripted import Client
from trimaran.errors.user_error import UserError
from trimaran.wire.codec.declarations import Field, Struct
from trimaran.wire.errors import KafkaError, RemoteProtocolError

WIDTH = 110
Function = Callable[[Client], Any]


def told(client: Client, function: Function) -> str:
    """Calls `function`; returns the text of its exchange with the client, which has scripted responses."""
    outcome = list(_outcome(lambda: function(client)))
    assert client.answers == [], "not all answers were asked for"
    return "\n".join([*_asked(client), *outcome])


def _outcome(call: Callable[[], Any]) -> Iterator[str]:
    try:
        yield f"= {shown(call())}"
    except UserError as error:
        yield f"{error}\n  exit code: {error.exit_code.name}"
    except KafkaError as error:
        yield f"KafkaError {error.code.name}: {error.message}"
    except RemoteProtocolError as error:
        yield f"RemoteProtocolError: {error}"


def _asked(client: Client) -> Iterator[str]:
    for (to, request), options in zip(client.asked, client.options, strict=True):
        given = {name: _sorted(value) for name, value in options.items() if value is not None}
        yield f"> to {to}{f', {given}' if given else ''}\n  {shown(request, 2)}"


def _sorted(value: Any) -> Any:
    return sorted(int(number) for number in value) if isinstance(value, frozenset) else value


def shown(value: Any, indent: int = 0) -> str:
    """Formats like `repr`, over several lines if one is too short. Fields with their default value are omitted."""
    if isinstance(value, Struct):
        fields = {
            field.name: getattr(value, field.name)
            for field in value.__fields__
            if _is_told(value, field)
        }
        parts = [f"{name}={shown(field, indent + 2)}" for name, field in fields.items()]
        return _listed(f"{type(value).__name__}(", parts, ")", indent)
    if isinstance(value, Mapping):
        parts = [f"{key!r}: {shown(each_value, indent + 2)}" for key, each_value in value.items()]
        return _listed("{", parts, "}", indent)
    if type(value) in (list, tuple):
        begin, end = "[]" if isinstance(value, list) else "()"
        return _listed(begin, [shown(element, indent + 2) for element in value], end, indent)
    return repr(value)


def _is_told(value: Struct, field: Field) -> bool:
    default = [] if field.factory is list else None if field.required else field.value_default()
    return field.required or getattr(value, field.name) != default


def _listed(begin: str, parts: list[str], end: str, indent: int) -> str:
    line = begin + ", ".join(parts) + end
    if "\n" not in line and indent + len(line) <= WIDTH:
        return line
    lines = [f"{' ' * (indent + 2)}{part}," for part in parts]
    return "\n".join([begin, *lines, f"{' ' * indent}{end}"])


def exchange(function: Function, *answers: Any, **given: Any) -> str:
    """Returns the text of the exchange with a client that has these responses."""
    return told(_Client(*answers, **given), function)


def exchanges(*ones: str) -> str:
    return "\n".join(ones)


class _Client(Client):
    """Notes each request as it was sent: one may be changed and sent again."""

    def call(self, destination: Any, request: Struct, **options: Any) -> Any:
        return super().call(destination, request.replace(), **options)


class Cases:
    """Functions whose texts are in a file, each under its name: a decorator collects them."""

    def __init__(self) -> None:
        self._cases: dict[str, Callable[[], str]] = {}

    def __call__(self, function: Callable[[], str]) -> Callable[[], str]:
        self._cases[function.__name__.removeprefix("_")] = function
        return function

    def check(self, path: Path) -> None:
        seen = []

        def run(step: Step) -> str:
            seen.append(step.command)
            return self._cases[step.command]()

        check_transcript(path, run)
        assert sorted(seen) == sorted(self._cases)
