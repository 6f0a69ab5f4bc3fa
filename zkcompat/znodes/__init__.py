"""Znodes, one file for each kind: its path, and the encoding and decoding of its data. Pure.

Source: Kafka 3.9's `ZkData.scala`, checked against trees written by real clusters. The member order of each object is
the order that Kafka's hash maps gave (`trimaran.zkcompat.znodes.json_form`). `decode` raises RemoteProtocolError for
malformed data; its result is for comparisons and tools and never flows back into the cluster. The znodes of old
consumers: see `legacy/consumer_offsets.py`.
"""
