"""Files and bytes of a partition log, synchronous, Apache Kafka's layouts."""
