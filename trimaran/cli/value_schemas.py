"""The options of `consume` and `produce` about the schemas of keys and values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from cyclopts import Group, Parameter

from trimaran.client import record_codecs, record_values
from trimaran.errors.user_error import Exit, UserError
from trimaran.wire.values import access, failures, framing

if TYPE_CHECKING:
    from collections.abc import Callable

_SCHEMAS = Group("Schemas", sort_key=9)
_FILES = (".avsc", ".proto", ".desc", ".pb", ".json")
BY_ID = "registry"
MSGPACK = "msgpack"
# The time limit of the registry for one schema of a page.
CONSOLE_SECONDS = 2.0
_HELP = (
    "a file (.avsc, .proto, .desc, .json), a subject of the registry, registry for the schemas that ids in the {0} "
    "name, or msgpack"
)


@Parameter(name="*", group=_SCHEMAS)
@dataclass(frozen=True)
class Schemas:
    """The schemas of keys and values; the names are those of `trimaran.spark.decoded`."""

    registry: Annotated[
        str | None,
        Parameter(
            name="--registry",
            help="URL of a schema registry: Confluent's API (also …/apis/ccompat/v7) or …/apis/registry/v3.",
        ),
    ] = None
    key_schema: Annotated[
        str | None,
        Parameter(
            name="--key-schema", help=f"Schema of keys: {_HELP.format('key')}; by default none."
        ),
    ] = None
    value_schema: Annotated[
        str | None,
        Parameter(
            name="--value-schema",
            help=f"Schema of values: {_HELP.format('value')}; by default none, or registry with --registry.",
        ),
    ] = None
    key_message: Annotated[
        str, Parameter(name="--key-message", help="Protobuf message of keys; by default the first.")
    ] = ""
    value_message: Annotated[
        str,
        Parameter(name="--value-message", help="Protobuf message of values; by default the first."),
    ] = ""
    registry_user: Annotated[
        str | None, Parameter(name="--registry-user", help="User for the registry (HTTP Basic).")
    ] = None
    registry_password_file: Annotated[
        Path | None,
        Parameter(
            name="--registry-password-file", help="File with the password in its first line."
        ),
    ] = None
    registry_token_file: Annotated[
        Path | None,
        Parameter(name="--registry-token-file", help="File with a bearer token in its first line."),
    ] = None
    registry_ca: Annotated[
        Path | None,
        Parameter(name="--registry-ca", help="PEM file with the authority of the registry."),
    ] = None
    registry_ids: Annotated[
        Literal["globalId", "contentId"] | None,
        Parameter(
            name="--registry-ids", help="Kind of Apicurio's ids, if it is not the usual one."
        ),
    ] = None

    @property
    def codecs(self) -> record_values.Codecs:
        """Returns the codecs to read with. Raises UserError."""
        return self._codecs(None)

    @property
    def codecs_of_console(self) -> record_values.Codecs:
        """Returns the codecs for topics of every kind: with a registry, keys are decoded by their ids, too. A person
        waits for a page, so the registry has less time. Raises UserError.
        """
        key = self.key_schema or (BY_ID if self.registry is not None else None)
        return self._codecs(None, CONSOLE_SECONDS, key)

    def codecs_for(self, topic: str) -> record_values.Codecs:
        """Returns the codecs to write a topic with; values without an id are written by the subject of the topic.

        Raises:
            UserError: an option is missing, or a schema cannot be used.
        """
        return self._codecs(topic)

    def _codecs(
        self, topic: str | None, seconds: float | None = None, key: str | None = None
    ) -> record_values.Codecs:
        value = self.value_schema or (BY_ID if self.registry is not None else None)
        return record_values.Codecs(
            self._codec(key or self.key_schema, self.key_message, "key", topic, seconds),
            self._codec(value, self.value_message, "value", topic, seconds),
        )

    def _codec(
        self,
        schema: str | None,
        message: str,
        part: Literal["key", "value"],
        topic: str | None,
        seconds: float | None,
    ) -> record_values.PartCodec | None:
        if schema is None:
            return None
        if schema == MSGPACK:
            return record_codecs.MsgpackCodec()
        if schema.endswith(_FILES):
            return explained(lambda: record_codecs.FileCodec(Path(schema), message))
        if self.registry is None:
            raise UserError(
                f"--{part}-schema {schema} needs --registry",
                f"it is no file ({', '.join(_FILES)}) and not {MSGPACK}, so it is a subject of a registry",
                "name the registry: --registry http://registry:8081",
                exit_code=Exit.USAGE,
            )
        client = self._access().client(seconds)
        return record_codecs.RegistryCodec(
            client,
            is_key=part == "key",
            subject=None if schema == BY_ID else schema,
            default_subject=None if topic is None else f"{topic}-{part}",
            message=message,
        )

    def _access(self) -> access.RegistryAccess:
        assert self.registry is not None
        return access.RegistryAccess(
            self.registry,
            self.registry_user,
            _first_line(self.registry_password_file),
            _first_line(self.registry_token_file),
            None if self.registry_ca is None else str(self.registry_ca),
            None if self.registry_ids is None else framing.IdKind(self.registry_ids),
        )


Made = TypeVar("Made")
# No schemas: the default of the options.
SCHEMAS = Schemas()


def _first_line(file: Path | None) -> str | None:
    return None if file is None else (file.read_text().splitlines() or [""])[0]


def explained(make: Callable[[], Made], about: str = "") -> Made:
    """Returns what `make` returns; failures of schemas become errors for the user, about a record if it is named."""
    try:
        return make()
    except failures.UnusableSchema as error:
        what, code = "the schema cannot be used", Exit.USAGE
        why, fix = str(error), "name another schema, or correct this one"
    except failures.UndecodedValue as error:
        what, code = f"{about} cannot be decoded", Exit.NO
        why, fix = (
            str(error),
            "--on-error null goes on, and shows such records without their values",
        )
    except failures.UnencodedValue as error:
        what, code = f"{about} cannot be encoded", Exit.USAGE
        why, fix = str(error), "correct the value, or name another schema"
    except failures.RegistryFailure as error:
        what, code = "the schema registry does not answer", Exit.CANNOT_CONNECT
        why, fix = (
            str(error),
            "correct --registry, --registry-user or the files of its password or token",
        )
    raise UserError(what, why, fix, exit_code=code)
