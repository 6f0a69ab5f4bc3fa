"""The Kafka protocol: declarations, codecs, errors; no I/O outside `trimaran.wire.transport` and
`trimaran.wire.blocking`.
"""
