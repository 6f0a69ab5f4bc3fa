"""Errors of decoding. Each text says which schema, what happened, and what to do."""


class UndecodedValue(ValueError):
    """A value that cannot be decoded. The record's producer or its schema is at fault; later records may be fine."""


class UnusableSchema(UndecodedValue):
    """A schema that is malformed, incomplete, beyond a limit, or unknown to the registry."""


class NoSchemaId(UndecodedValue):
    """A value that does not begin with the id of a schema, and has none in its headers."""


class UnencodedValue(ValueError):
    """A value that does not fit its schema. The author of the value is at fault."""


class RegistryFailure(Exception):
    """A registry that cannot be reached or does not answer as one. Each later value would fail in the same way."""


EXTRA = "Install the decoders: pip install 'trimaran[schemas]'."
"""The remedy if fastavro, protobuf or protoc is missing."""
