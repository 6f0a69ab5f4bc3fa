"""Responses of Apache Kafka and of ours to the same requests, of many principals under many sets of ACLs."""
