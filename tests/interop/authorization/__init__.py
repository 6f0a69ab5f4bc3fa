"""Comparisons of Apache Kafka's responses and ours to the same requests, for many principals and sets of ACLs."""
