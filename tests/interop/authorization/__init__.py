"""What Apache Kafka and we answer to the same requests, of many principals under many sets of ACLs."""
