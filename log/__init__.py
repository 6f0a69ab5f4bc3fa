"""Files and bytes of partition logs in Apache Kafka's layouts, with synchronous I/O."""
