"""`./dev bench spark`: our sources beside Spark's own Kafka connector, and against marks."""
