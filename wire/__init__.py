"""The Kafka protocol: declarations, codecs, errors; no I/O outside `wire.transport` and `wire.blocking`."""
