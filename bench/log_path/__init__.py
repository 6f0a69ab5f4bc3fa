"""One table: the path of an append and of a read through a log, ours and Apache Kafka's. See `__main__`."""
