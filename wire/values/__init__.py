"""Values of records decoded by their schemas: Avro, Protobuf and JSON, by registries or by local files.

Spark's sources, the commands and the console use this package; its calls block. Any client that may produce can have
written a value, so sizes, nesting and waits are bounded. A value that cannot be decoded raises `UndecodedValue`.
"""
