"""Writing to running brokers: the sink of the format `kafka_log`."""
