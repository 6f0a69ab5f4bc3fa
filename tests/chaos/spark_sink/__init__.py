"""`./dev chaos --spark-sink`: exactly-once writes of a real Spark, while its processes and brokers are killed."""
