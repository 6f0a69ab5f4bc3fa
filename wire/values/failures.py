"""Errors of decoding. Each text names the schema, the fault and the remedy."""


class UndecodedValue(ValueError):
    """A value that cannot be decoded. The record's producer or its schema is at fault; later records may be fine."""


class UnusableSchema(UndecodedValue):
    """A schema that is malformed, incomplete, beyond a limit, or unknown to the registry."""


class NoSchemaId(UndecodedValue):
    """A value that does not begin with the id of a schema, and has none in its headers."""


class UnencodedValue(ValueError):
    """A value that does not fit its schema. The author of the value is at fault."""


class RegistryFailure(Exception):
    """The registry cannot be reached, or its answer is not that of a schema registry. Every later value would fail in
    the same way.
    """


EXTRA = "Install the decoders: pip install 'trimaran[schemas]'."
"""The remedy if fastavro, protobuf or protoc is missing."""
