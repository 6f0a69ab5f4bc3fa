"""Znodes, a file a kind: its path, its bytes, and back. Pure.

Source: Kafka 3.9's `ZkData.scala`, checked against trees written by real clusters. The member order of each object is
the order that Kafka's hash maps gave (`trimaran.zkcompat.znodes.json_form`). `decode` raises RemoteProtocolError for
anything malformed; what it returns is for comparing and for tools, nothing of it flows back into the cluster.
Left out: the old consumers' znodes.
"""
