"""Repeatable measurements: ours and Apache Kafka 4.4 in turn, on the same work, in one run."""
