"""Values of records decoded by their schemas: Avro, Protobuf and JSON, by registries or by local files.

Spark and the front door share it. It waits in the calling thread. Values come from anyone who may produce: sizes,
nesting and waits are bounded, and a value that cannot be decoded is an `UndecodedValue`.
"""
