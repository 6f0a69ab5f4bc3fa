"""Between the flat messages of the Raft core and the wire structs, which nest topics and partitions. Source: Kafka's
`RaftUtil`.
"""
