"""Codecs side by side on the same bytes: our codec, those of kio and kafka-python, and Apache Kafka's own (Java)."""
