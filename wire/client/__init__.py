"""A Kafka client without I/O: bootstrap, routing, retries."""
