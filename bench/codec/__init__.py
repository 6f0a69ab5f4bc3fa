"""Codecs side by side on the same bytes: ours, kio's, kafka-python's and Apache Kafka's own (Java)."""
