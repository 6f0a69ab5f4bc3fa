"""Configuration keys: name, type, default, bounds, and how they may be altered. One table of keys drives parsing, the
controller's validation of dynamic configs, DescribeConfigs and the documentation.

Source: Kafka's `ConfigDef`. Values have Python types: bool, int, float, str, list of str; None for Kafka's null.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import IntEnum
from typing import Any, Literal

Kind = Literal["boolean", "int", "long", "short", "double", "string", "list", "password", "class"]
Scope = Literal["read-only", "per-broker", "cluster-wide"]
Importance = Literal["high", "medium", "low"]
INT_MAX, LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
_INTEGERS: dict[str, tuple[int, int]] = {
    "short": (-(1 << 15), (1 << 15) - 1),
    "int": (-(1 << 31), INT_MAX),
    "long": (-(1 << 63), LONG_MAX),
}


class ConfigTypeId(IntEnum):
    """The types of configs in DescribeConfigs (KIP-569)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigError(Exception):
    """An invalid setting. `origin` is its source, `fix` the remedy, `answer` Kafka's message for clients."""

    def __init__(
        self,
        key: str,
        value: object,
        why: str,
        *,
        origin: str = "",
        fix: str = "",
        answer: str | None = None,
    ) -> None:
        where = f" ({origin})" if origin else ""
        super().__init__(f"{key}={value}{where}: {why}")
        self.key, self.value, self.why, self.origin, self.fix = key, value, why, origin, fix
        self.answer = answer or f"Invalid value {value} for configuration {key}: {why}"


# Returns the reason why a value is invalid; None if it is valid.
Check = Callable[[Any], str | None]


def at_least(low: float) -> Check:
    return lambda value: None if value >= low else f"Value must be at least {low}"


def between(low: float, high: float) -> Check:
    def why(value: Any) -> str | None:
        if value < low:
            return f"Value must be at least {low}"
        return f"Value must be no more than {high}" if value > high else None

    return why


def between_or_default(low: float, high: float) -> Check:
    """Accepts a level in the range, or -1 for the codec's own default."""
    why = f"Value must be between {low} and {high} or equal to -1"
    return lambda value: None if value == -1 or low <= value <= high else why


def one_of(*choices: str) -> Check:
    return lambda value: (
        None if value in choices else "String must be one of: " + ", ".join(choices)
    )


def all_of(*choices: str) -> Check:
    """Accepts a list of these choices only."""
    return lambda value: (
        None if set(value) <= set(choices) else "String must be one of: " + ", ".join(choices)
    )


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key. `required` keys have no default. `internal` keys are hidden from clients.

    A key has an effect unless a field says why not. `no_effect`: the key is ignored here. `no_effect_while_running`:
    an alteration has no effect until the file of the broker has the same value. `only_default`: no other value
    is accepted, because an operator who sets one relies on it. `type_for_clients` is the type in responses to clients,
    if Kafka parses the text later. `undeclared`: Apache Kafka 4.4 does not declare it, since only a plug-in reads it
    there; responses to clients include such a key if a file sets it, without its type and value. `gaps`: elements of a
    list may be empty, and are dropped.
    """

    name: str
    kind: Kind
    default: Any
    doc: str
    check: Check | None = None
    importance: Importance = "medium"
    scope: Scope = "read-only"
    required: bool = False
    internal: bool = False
    no_effect: str = ""
    no_effect_while_running: str = ""
    only_default: str = ""
    type_for_clients: Kind | None = None
    undeclared: bool = False
    gaps: bool = False

    @property
    def documentation(self) -> str:
        """Returns the description for clients, including the effects that the key does not have here."""
        if self.no_effect:
            return f"{self.doc} It has no effect here: {self.no_effect}."
        if self.only_default:
            return f"{self.doc} Only the default is accepted: {self.only_default}."
        if self.no_effect_while_running:
            return f"{self.doc} An alteration has no effect before a restart: {self.no_effect_while_running}."
        return self.doc

    @property
    def sensitive(self) -> bool:
        return self.kind == "password" or self.undeclared

    @property
    def type_id(self) -> ConfigTypeId:
        if self.undeclared:
            return ConfigTypeId.UNKNOWN
        return ConfigTypeId[(self.type_for_clients or self.kind).upper()]

    def parse(self, text: str, *, origin: str = "") -> Any:
        """Parses `text` to a typed value.

        Raises:
            ConfigError: the text does not have the type, or the value is out of bounds.
        """
        value = self._typed(text, origin)
        if self.only_default and value != self.default:
            raise ConfigError(
                self.name,
                text,
                self.only_default,
                origin=origin,
                fix=f"leave it out; the default is {self.default_text}",
            )
        why = self.check(value) if self.check is not None else None
        if why is not None:
            raise ConfigError(
                self.name,
                text,
                why,
                origin=origin,
                fix=self._remedy("a value that is allowed"),
                answer=f"Invalid value {self._wrong_part(value)} for configuration {self.name}: {why}",
            )
        return value

    def parse_stored(self, text: str, *, origin: str = "") -> Any:
        """Parses a text of the metadata log: earlier controllers stored lists with empty elements, which are
        ignored.
        """
        return (replace(self, gaps=True) if self.kind == "list" else self).parse(
            text, origin=origin
        )

    def _wrong_part(self, value: Any) -> str:
        """Returns the value that Kafka names in an out-of-bounds error; for a list the first invalid element."""
        if isinstance(value, list) and self.check is not None:
            return next((part for part in value if self.check([part])), self.text_of(value))
        return self.text_of(value)

    def _remedy(self, wanted: str) -> str:
        if self.required:
            return f"write {wanted}; {self.name} is: {self.doc}"
        default = (
            "by default it is not set"
            if self.default is None
            else f"the default is {self.default_text}"
            if self.default_text
            else "by default it is empty"
        )
        return f"write {wanted}; {default}"

    @property
    def default_text(self) -> str:
        return "none" if self.default is None else self.text_of(self.default)

    def text_of(self, value: Any) -> str:
        """Returns a value in Kafka's format."""
        match value:
            case bool():
                return "true" if value else "false"
            case list():
                return ",".join(value)
            case float():
                return java_double(value)
            case _:
                return str(value)

    def _typed(self, text: str, origin: str) -> Any:
        match self.kind:
            case "boolean":
                if (word := text.strip().lower()) in {"true", "false"}:
                    return word == "true"
                raise self._wrong(
                    text, origin, "Expected value to be either true or false", "true or false"
                )
            case "int" | "long" | "short":
                return self._integer(text, origin)
            case "double":
                try:
                    return float(_number(text))
                except ValueError:
                    raise self._wrong(
                        text, origin, "Not a number of type DOUBLE", "a number"
                    ) from None
            case "list":
                return self._list(text, origin)
            case _:
                return text.strip()

    def _list(self, text: str, origin: str) -> list[str]:
        parts = [part.strip() for part in text.split(",")] if text.strip() else []
        if not (all(parts) or self.gaps or self.type_for_clients is not None):
            raise ConfigError(
                self.name,
                text,
                "one of its values is empty",
                origin=origin,
                fix="remove the extra comma",
                answer=f"Configuration '{self.name}' values must not be empty.",
            )
        return [part for part in parts if part]

    def _integer(self, text: str, origin: str) -> int:
        low, high = _INTEGERS[self.kind]
        why = f"Not a number of type {self.kind.upper()}"
        try:
            value = int(_number(text))
        except ValueError:
            raise self._wrong(text, origin, why, "a whole number") from None
        if not low <= value <= high:
            raise self._wrong(text, origin, why, f"a whole number from {low} to {high}")
        return value

    def _wrong(self, text: str, origin: str, why: str, wanted: str) -> ConfigError:
        return ConfigError(self.name, text, why, origin=origin, fix=self._remedy(wanted))


def _number(text: str) -> str:
    """Raises ValueError for `1_000`, which only Python accepts as a number."""
    if "_" in text:
        raise ValueError(text)
    return text


def java_double(value: float) -> str:
    """Returns the text of Java's `Double.toString`: 0.5, 1000000.0, 1.0E7, 1.0E-4."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    digits, exponent = f"{Decimal(repr(value)):E}".split("E")
    whole, _, fraction = digits.partition(".")
    return f"{whole}.{fraction.rstrip('0') or '0'}E{int(exponent)}"


class ConfigDef(Mapping[str, ConfigKey]):
    """A table of keys by name."""

    def __init__(self, keys: Iterable[ConfigKey]) -> None:
        self._keys = {key.name: key for key in keys}

    def __getitem__(self, name: str) -> ConfigKey:
        return self._keys[name]

    def __iter__(self) -> Any:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
