"""Actions from keyword arguments, such as `error="NOT_COORDINATOR"`, `delay=[0.1, 0.5]` and `drop="response"`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from trimaran.faults.actions import (
    AdvertiseAddress,
    AnswerError,
    ChangeField,
    CorruptRecords,
    DelayFrame,
    DropFrame,
    DuplicateFrame,
    EndConnection,
    EndMoment,
    ErrorPlace,
    FaultAction,
    FaultTime,
    HoldFrame,
    LeaderFault,
    RunScript,
    ShowLeaders,
    Side,
    StaySilent,
    ThrottleBytes,
    TruncateResponse,
)
from trimaran.faults.plan_error import PlanError, unknown
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import Address

# The longest wait: a day.
SECONDS_MAX = 86_400.0
_PORTS = range(1, 1 << 16)

E = TypeVar("E", bound=StrEnum)
# Actions after which nothing is left of the request, or of its response.
_ENDINGS = ("error", "drop", "close", "reset", "half_open", "truncate", "script")
# Keywords that only refine the action beside them.
MODIFIERS = {"place": "error", "applied": "error", "side": "delay", "released_by": "hold"}


def parse_actions(given: Mapping[str, Any]) -> tuple[FaultAction, ...]:
    """Returns the actions of one step; an empty step does nothing.

    Raises:
        PlanError: an action is unknown, has an invalid value, or cannot be combined with another one.
    """
    for key in given:
        if key not in ACTION_KEYS:
            raise unknown("action", key, sorted(ACTION_KEYS), key)
        if key in MODIFIERS and MODIFIERS[key] not in given:
            raise PlanError(f"{key} is without {MODIFIERS[key]}", f"add {MODIFIERS[key]}", key=key)
    endings = [key for key in _ENDINGS if key in given]
    if len(endings) > 1:
        raise PlanError(
            f"{endings[0]} and {endings[1]} exclude each other",
            "give one of them, or a sequence of steps",
            key=endings[1],
        )
    return tuple(action for key in given if key in _PARSERS for action in _PARSERS[key](given))


def one_of(kind: type[E], value: Any, key: str) -> E:
    try:
        return kind(value)
    except ValueError:
        raise unknown(f"{key}", value, [str(member) for member in kind], key) from None


def number(value: Any, key: str, low: float, high: float) -> float:
    """Returns a number within bounds. Raises PlanError: the value is not a number, or out of bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise PlanError(f"{key} is {value!r}", f"write a number from {low:g} to {high:g}", key=key)
    return value


def whole(value: Any, key: str, low: int, high: int) -> int:
    """Returns a whole number within bounds. Raises PlanError: the value is not a whole number, or out of bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise PlanError(
            f"{key} is {value!r}", f"write a whole number from {low} to {high}", key=key
        )
    return value


def error_code(value: Any) -> ErrorCode:
    """Returns an error code by its name or its number. Raises PlanError: there is no such code, or it is NONE."""
    names = [code.name for code in ErrorCode if code is not ErrorCode.NONE]
    if isinstance(value, int) and not isinstance(value, bool):
        if value in {int(code) for code in ErrorCode} - {0}:
            return ErrorCode(value)
    elif value in names:
        return ErrorCode[value]
    raise unknown("error code", value, names, "error")


def _error(given: Mapping[str, Any]) -> Iterator[FaultAction]:
    place = given.get("place")
    applied = given.get("applied", False)
    if not isinstance(applied, bool):
        raise PlanError(f"applied is {applied!r}", "write true or false", key="applied")
    yield AnswerError(
        error_code(given["error"]),
        None if place is None else one_of(ErrorPlace, place, "place"),
        applied,
    )


def _change(given: Mapping[str, Any]) -> Iterator[FaultAction]:
    changes = given["change"]
    if not isinstance(changes, Mapping) or not changes:
        raise PlanError(
            "change is no table", 'write {"response.throttle_time_ms": 5000}', key="change"
        )
    for path, value in changes.items():
        side, dot, rest = str(path).partition(".")
        if not dot:
            raise PlanError(
                f"{path!r} does not name a side",
                f"write request.{path} or response.{path}",
                key="change",
            )
        yield ChangeField(one_of(Side, side, "change"), rest, value)


def _delay(given: Mapping[str, Any]) -> Iterator[FaultAction]:
    yield DelayFrame(_time(given["delay"]), one_of(Side, given.get("side", "request"), "side"))


def _time(value: Any) -> FaultTime:
    if isinstance(value, Mapping):
        if value.keys() - {"mean", "most"} or "mean" not in value:
            raise PlanError(f"delay is {value!r}", "write {mean = 0.2, most = 5}", key="delay")
        most = number(value.get("most", SECONDS_MAX), "delay", 0, SECONDS_MAX)
        return FaultTime(0.0, most, number(value["mean"], "delay", 1e-6, SECONDS_MAX))
    if isinstance(value, list | tuple):
        if len(value) != 2:
            raise PlanError(f"delay is {value!r}", "write [0.1, 0.5]", key="delay")
        low, high = (number(each, "delay", 0, SECONDS_MAX) for each in value)
        return FaultTime(min(low, high), max(low, high))
    fixed = number(value, "delay", 0, SECONDS_MAX)
    return FaultTime(fixed, fixed)


def _hold(given: Mapping[str, Any]) -> Iterator[FaultAction]:
    yield HoldFrame(one_of(Side, given["hold"], "hold"), str(given.get("released_by", "")))


def _with_side(
    action: Callable[[Side], FaultAction], key: str
) -> Callable[..., Iterator[FaultAction]]:
    def parse(given: Mapping[str, Any]) -> Iterator[FaultAction]:
        yield action(one_of(Side, given[key], key))

    return parse


def _end(key: str) -> Callable[..., Iterator[FaultAction]]:
    def parse(given: Mapping[str, Any]) -> Iterator[FaultAction]:
        yield EndConnection(one_of(EndMoment, given[key], key), by_reset=key == "reset")

    return parse


def _half_open(given: Mapping[str, Any]) -> Iterator[FaultAction]:
    if given["half_open"] is not True:
        raise PlanError("half_open is not true", "write half_open = true", key="half_open")
    yield StaySilent()


def _truncate(given: Mapping[str, Any]) -> Iterator[FaultAction]:
    # Clients would refuse an empty frame because of its size alone.
    yield TruncateResponse(whole(given["truncate"], "truncate", 1, 1 << 30))


def _throttle(given: Mapping[str, Any]) -> Iterator[FaultAction]:
    yield ThrottleBytes(number(given["throttle"], "throttle", 1, 1e12))


def _leaders(given: Mapping[str, Any]) -> Iterator[FaultAction]:
    yield ShowLeaders(one_of(LeaderFault, given["leaders"], "leaders"))


def _advertise(given: Mapping[str, Any]) -> Iterator[FaultAction]:
    host, _, port = str(given["advertise"]).rpartition(":")
    if not host or not port.isdecimal() or int(port) not in _PORTS:
        raise PlanError(f"advertise is {given['advertise']!r}", "write HOST:PORT", key="advertise")
    yield AdvertiseAddress(Address(host.strip("[]"), int(port)))


def _script(given: Mapping[str, Any]) -> Iterator[FaultAction]:
    if not callable(given["script"]):
        raise PlanError(
            f"script is {given['script']!r}",
            "give a Python function; a plan file has none",
            key="script",
        )
    yield RunScript(given["script"])


_PARSERS: Mapping[str, Callable[[Mapping[str, Any]], Iterator[FaultAction]]] = {
    # Actions that change what is sent are before those that decide whether and when it is sent.
    "error": _error,
    "script": _script,
    "change": _change,
    "leaders": _leaders,
    "advertise": _advertise,
    "corrupt": _with_side(CorruptRecords, "corrupt"),
    "delay": _delay,
    "hold": _hold,
    "throttle": _throttle,
    "truncate": _truncate,
    "duplicate": _with_side(DuplicateFrame, "duplicate"),
    "drop": _with_side(DropFrame, "drop"),
    "close": _end("close"),
    "reset": _end("reset"),
    "half_open": _half_open,
}
ACTION_KEYS = frozenset(_PARSERS) | frozenset(MODIFIERS)
